"""Replica: the agent's copy of the source's resources; the agent works from it during an outage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from netfw.agents.common.resource_index import ResourceChange, ResourceIndex
from netfw.drivers.state_source import Cursor, StateSource
from netfw.drivers.values.subscription import Subscription
from netfw.errors import BackendUnavailable, CursorLost
from netfw.model.resource import Ref, Resource, ref

_MAX_SNAPSHOTS = 3


@frozen(kw_only=True)
class ReplicaDelta:
    """Difference from the previous state of the replica.  Falsy when there is none."""

    changes: tuple[ResourceChange, ...] = ()
    redelivered: tuple[ResourceChange, ...] = ()
    """Resources that the source delivered again, as they were: it may have lost their reports."""
    snapshot: bool = False
    """Found by a full read: the source may have lost the reports of this agent."""
    complete: bool = False
    """The replica was empty before: ``changes`` holds every resource."""

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def dropped(self) -> int:
        """Number of resources that are gone."""
        return sum(change.after is None for change in self.changes)


class Replica:
    """The resources of a subscription, read by snapshot and cursor into *index*.

    The index changes only by a consistent set of resources: whatever happens while they are read,
    it equals an earlier state of the source or the current one, never a mixture.
    """

    def __init__(
        self,
        source: StateSource,
        subscription: Subscription,
        index: ResourceIndex | None = None,
    ) -> None:
        self._source, self._subscription = source, subscription
        self._index = ResourceIndex() if index is None else index
        self._cursor: Cursor | None = None
        self.known = False
        """Whether a full snapshot was read; before that, nothing may be taken for garbage."""

    @property
    def resources(self) -> Mapping[Ref, Resource]:
        """The resources as of the last `pull`."""
        return self._index

    def resync(self) -> None:
        """Read everything with the next `pull`, and compare."""
        self._cursor = None

    def reset(self) -> None:
        """Remove everything: the next delta is complete."""
        self._index.clear()
        self._cursor, self.known = None, False

    def pull(self) -> ReplicaDelta:
        """Catch up with the source; return the difference.

        :raises BackendUnavailable: the source does not answer; the replica is unchanged.
        """
        if self._cursor is not None:
            try:
                staged, cursor = self._read_changes(self._cursor)
                return self._apply(staged, cursor, snapshot=False)
            except CursorLost:
                self._cursor = None
        for _ in range(_MAX_SNAPSHOTS):
            try:
                staged, cursor = self._read_snapshot()
            except CursorLost:
                continue  # the cursor expired while the snapshot was read
            gone = self._index.keys() - staged.keys()
            delta = self._apply({**dict.fromkeys(gone), **staged}, cursor, snapshot=True)
            complete, self.known = not self.known, True
            return evolve(delta, complete=complete)
        raise BackendUnavailable("the source discards its changes faster than it can be read")

    def _read_snapshot(self) -> tuple[dict[Ref, Resource | None], Cursor]:
        staged: dict[Ref, Resource | None] = {}
        cursor: Cursor | None = None
        for page in self._source.snapshot(self._subscription):
            staged |= {ref(resource): resource for resource in page.put}
            cursor = page.cursor
        if cursor is None:
            raise BackendUnavailable("the source gave a snapshot without a page")
        since, cursor = self._read_changes(cursor)
        return {**staged, **since}, cursor

    def _read_changes(self, cursor: Cursor) -> tuple[dict[Ref, Resource | None], Cursor]:
        staged: dict[Ref, Resource | None] = {}
        more = True
        while more:
            delta = self._source.changes(self._subscription, cursor)
            staged |= {ref(resource): resource for resource in delta.put}
            staged |= dict.fromkeys(delta.drop)
            cursor, more = delta.cursor, delta.more
        return staged, cursor

    def _apply(
        self, staged: Mapping[Ref, Resource | None], cursor: Cursor, *, snapshot: bool
    ) -> ReplicaDelta:
        equal = () if snapshot else tuple(self._redelivered(staged))
        changes = self._index.apply(staged)
        self._cursor = cursor
        return ReplicaDelta(changes=changes, redelivered=equal, snapshot=snapshot)

    def _redelivered(self, staged: Mapping[Ref, Resource | None]) -> Iterator[ResourceChange]:
        for key, resource in staged.items():
            if resource is not None and self._index.get(key) == resource:
                yield ResourceChange(key, resource, resource)
