"""What a source can do for many readers at once, beyond the contract.

A :class:`~netfw.messaging.remote.desk.Desk` offers any source; one that has these methods costs it
less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from netfw.drivers.interest import Interest
from netfw.drivers.state_source import Cursor, Delta, Stop
from netfw.messaging.reach import Root
from netfw.model.resource import Ref

Tell = Callable[[Cursor, frozenset[Root] | None], None]
"""Hears up to where there were commits, and whom they concern; ``None``: anybody.

It may be called by any thread, and only enqueues: it neither waits nor raises.
"""


@runtime_checkable
class Parted(Protocol):
    """A source that can go on with a snapshot which another process began."""

    def part(self, interest: Interest, after: Ref | None = None) -> Delta:
        """A page of what concerns *interest*, in the order of :func:`position`, behind *after*.

        Its cursor is from before it was read.  Whoever reads page after page keeps the cursor of
        the first: changes since that bring what the pages do not agree on.
        """


@runtime_checkable
class Announcing(Protocol):
    """A source that says after every commit whom it concerns."""

    def announce(self, tell: Tell) -> Stop:
        """Tell of every commit from now on, until stopped."""


def position(ref: Ref) -> tuple[str, int]:
    """Where *ref* stands in the order of pages."""
    return ref.kind.value, ref.id.int
