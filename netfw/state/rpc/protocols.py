"""What a source can do for many readers at once, beyond the contract.

A :class:`~netfw.state.rpc.server.StateRpcServer` offers any source; one that has these methods
costs it
less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from attrs import field, frozen

from netfw.drivers.state_source import Cursor, Stop
from netfw.drivers.subscription import Subscription
from netfw.model.resource import Ref
from netfw.state.dependencies import AgentRoot

Tell = Callable[[Cursor, frozenset[AgentRoot] | None], None]
"""Hears up to where there were commits, and whom they concern; ``None``: anybody.

It may be called by any thread, and only enqueues: it neither waits nor raises.
"""


@frozen(kw_only=True)
class EncodedDelta:
    """A delta whose resources are written already, each as a JSON object in the form of the API."""

    put: Mapping[Ref, str] = field(factory=dict)
    drop: frozenset[Ref] = frozenset()
    cursor: Cursor
    more: bool = False


@runtime_checkable
class EncodedSource(Protocol):
    """A source that has its resources as text, and can go on with what another process began."""

    def written_part(self, subscription: Subscription, after: Ref | None = None) -> EncodedDelta:
        """A page of what concerns *subscription*, in the order of :func:`position`, behind *after*.

        Its cursor is from before it was read.  Whoever reads page after page keeps the cursor of
        the first: changes since that bring what the pages do not agree on.
        """

    def written_changes(self, subscription: Subscription, since: Cursor) -> EncodedDelta:
        """What ``changes`` says.

        :raises CursorLost: it cannot tell.
        """


@runtime_checkable
class CommitFeed(Protocol):
    """A source that says after every commit whom it concerns."""

    def announce(self, tell: Tell) -> Stop:
        """Tell of every commit from now on, until stopped."""


def position(ref: Ref) -> tuple[str, int]:
    """Where *ref* stands in the order of pages."""
    return ref.kind.value, ref.id.int
