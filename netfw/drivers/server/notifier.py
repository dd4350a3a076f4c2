"""Notifier: sends changes to external services."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from netfw.drivers.base import Driver
from netfw.drivers.server.change import Change


class Notifier(Driver):
    """Sends changes to an external service, such as the compute service or a webhook.

    Promises:

    1. ``concerns`` is pure and quick: it is called in the transaction of each request; an
       exception is logged and counts as yes.
    2. ``notify`` is called from the outbox after the commit, outside any transaction, by one
       thread at a time, with the changes that concern it in commit order: several at once where
       they queue, each at least once.
    3. ``notify`` is idempotent for the service: every message has a state, or ref and revision.
    4. After an exception of ``notify`` the whole batch stays in the outbox, visible: after
       ``BackendUnavailable`` it is retried with growing back-off, after any other exception it
       waits for an operator.  No request waits for it, and no port's status depends on it.
    5. ``notify`` stops waiting for the service after the timeout of its options.
    """

    GROUP: ClassVar[str] = "netfw.notifiers"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def concerns(self, change: Change) -> bool:
        """Return whether the service gets *change*."""

    @abstractmethod
    def notify(self, changes: Sequence[Change]) -> None:
        """Send *changes* to the service.

        :raises BackendUnavailable: the outbox retries, with growing back-off.
        :raises NetfwError: the service refused for good; the batch stays in the outbox, visible,
            without a retry, as after any other exception.
        """
