"""Notifier: tells outside parties what concerns them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from netfw.drivers.base import Driver
from netfw.drivers.change import Change


class Notifier(Driver):
    """Tells an outside party, such as the compute service or a webhook, of changes.

    Promises:

    1. ``concerns`` is pure and quick: it is called in the transaction of each request, and what it
       raises is logged and counts as yes.
    2. ``notify`` is called from the outbox after the commit, outside any transaction, by one
       thread at a time, with the changes that concern it in the order of the commits: several at
       once where they queue, each at least once.
    3. ``notify`` is idempotent for the other side: every message says a state, or carries ref and
       revision.
    4. What ``notify`` raises keeps the whole batch in the outbox, where it can be seen: after
       ``BackendUnavailable`` it is tried again with growing pauses, after anything else it waits
       for a person.  No request waits for it and no port's status depends on it.
    5. It gives up waiting for the other side after the time-out of its options.
    """

    GROUP: ClassVar[str] = "netfw.notifiers"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def concerns(self, change: Change) -> bool:
        """Whether the outside party is to hear of *change*."""

    @abstractmethod
    def notify(self, changes: Sequence[Change]) -> None:
        """Tell the outside party.

        :raises BackendUnavailable: tried again, with growing pauses.
        :raises NetfwError: the other side refused for good; kept and shown, not tried again, like
            what any other exception leaves.
        """
