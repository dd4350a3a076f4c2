"""Optional protocols of a state source that an RPC server makes use of.

A :class:`~netfw.state.rpc.server.StateRpcServer` offers any source.  One that is encoded and
announces commits costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, runtime_checkable

from attrs import field, frozen

from netfw.drivers.state_source import Cursor, Stop
from netfw.drivers.values.subscription import Subscription
from netfw.model.resource import Ref
from netfw.state.dependencies import AgentRoot, ResourceRole

Tell = Callable[[Cursor, frozenset[AgentRoot] | None], None]
"""Callback with the newest cursor and the agent roots that commits concern; ``None``: all.

It may be called by any thread, and only enqueues: it neither waits nor raises.
"""


@frozen(kw_only=True)
class EncodedDelta:
    """A delta with encoded resources, each as a JSON object in the form of the API."""

    put: Mapping[Ref, str] = field(factory=dict)
    drop: frozenset[Ref] = frozenset()
    cursor: Cursor
    more: bool = False
    traces: tuple[str, ...] = ()
    """Trace contexts of the requests that made the changes, as far as they are known."""


@runtime_checkable
class EncodedSource(Protocol):
    """A source that has its resources as text, and can continue a snapshot of another process."""

    def written_part(
        self, subscription: Subscription, after: Ref | None = None, limit: int | None = None
    ) -> EncodedDelta:
        """Return a page of the resources of *subscription* after *after*, by :func:`position`.

        It has *limit* resources at most, or fewer.

        Its cursor is from before it was read.  A reader of several pages keeps the cursor of the
        first: the changes since then correct inconsistent pages.
        """

    def written_changes(self, subscription: Subscription, since: Cursor) -> EncodedDelta:
        """Return the same delta as ``changes``, encoded.

        :raises CursorLost: the source does not know the changes since then.
        """


@runtime_checkable
class CommitFeed(Protocol):
    """A source that announces every commit with the agent roots it concerns."""

    def announce(self, tell: Tell) -> Stop:
        """Call *tell* after every commit from now on, until stopped."""


@runtime_checkable
class ReachabilitySource(Protocol):
    """A source that can check what an agent depends on.

    Without it, requests by the id of a network or router are refused to callers with the
    credentials of one host.
    """

    def reaches_any(self, needs: Collection[tuple[AgentRoot, ResourceRole]]) -> bool:
        """Return whether one of the roots reaches its node now.  The cost is that of *needs*."""


def position(ref: Ref) -> tuple[str, int]:
    """Return the sort key of *ref* in the order of pages."""
    return ref.kind.value, ref.id.int
