"""Replica: what the source last said, kept so that the agent goes on without it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from netfw.drivers.state_source import Cursor, StateSource
from netfw.drivers.subscription import Subscription
from netfw.errors import BackendUnavailable, CursorLost
from netfw.model.resource import Ref, Resource, ref

_SNAPSHOTS = 3


@frozen(kw_only=True)
class ReplicaDelta:
    """What is different from before.  Falsy when nothing is."""

    put: tuple[Resource, ...] = ()
    drop: frozenset[Ref] = frozenset()
    snapshot: bool = False
    """It was found by reading everything: what was reported before may be forgotten there."""
    complete: bool = False
    """``put`` is everything there is."""

    def __bool__(self) -> bool:
        return bool(self.put or self.drop)


class Replica:
    """The resources that concern an interest, by snapshot and cursor.

    Resources are taken over only when they fit together: whatever happens while they are read,
    the replica is as it was or as the source is, never in between.
    """

    def __init__(self, source: StateSource, interest: Subscription) -> None:
        self._source, self._interest = source, interest
        self._resources: dict[Ref, Resource] = {}
        self._cursor: Cursor | None = None
        self.known = False
        """Whether the whole is known; before that, nothing may be taken for superfluous."""

    @property
    def resources(self) -> Mapping[Ref, Resource]:
        return self._resources

    def resync(self) -> None:
        """Read everything the next time, and compare."""
        self._cursor = None

    def forget(self) -> None:
        """Begin anew: the next change is everything there is."""
        self._resources, self._cursor, self.known = {}, None, False

    def pull(self) -> ReplicaDelta:
        """Come to where the source is, and say what is different.

        :raises BackendUnavailable: the source does not answer; the replica is as it was.
        """
        if self._cursor is not None:
            try:
                staged, cursor = self._changes(self._cursor)
                return self._take(staged, cursor, snapshot=False)
            except CursorLost:
                self._cursor = None
        for _ in range(_SNAPSHOTS):
            try:
                staged, cursor = self._everything()
            except CursorLost:
                continue  # it forgot in the time that reading took
            gone = self._resources.keys() - staged.keys()
            change = self._take({**dict.fromkeys(gone), **staged}, cursor, snapshot=True)
            complete, self.known = not self.known, True
            return evolve(change, complete=complete)
        raise BackendUnavailable("the source forgets its changes faster than it can be read")

    def _everything(self) -> tuple[dict[Ref, Resource | None], Cursor]:
        staged: dict[Ref, Resource | None] = {}
        cursor: Cursor | None = None
        for page in self._source.snapshot(self._interest):
            staged |= {ref(resource): resource for resource in page.put}
            cursor = page.cursor
        if cursor is None:
            raise BackendUnavailable("the source gave a snapshot without a page")
        since, cursor = self._changes(cursor)
        return {**staged, **since}, cursor

    def _changes(self, cursor: Cursor) -> tuple[dict[Ref, Resource | None], Cursor]:
        staged: dict[Ref, Resource | None] = {}
        more = True
        while more:
            delta = self._source.changes(self._interest, cursor)
            staged |= {ref(resource): resource for resource in delta.put}
            staged |= dict.fromkeys(delta.drop)
            cursor, more = delta.cursor, delta.more
        return staged, cursor

    def _take(
        self, staged: Mapping[Ref, Resource | None], cursor: Cursor, *, snapshot: bool
    ) -> ReplicaDelta:
        put: list[Resource] = []
        drop: set[Ref] = set()
        for key, resource in staged.items():
            if resource is None:
                if self._resources.pop(key, None) is not None:
                    drop.add(key)
            elif self._resources.get(key) != resource:
                self._resources[key] = resource
                put.append(resource)
        self._cursor = cursor
        return ReplicaDelta(put=tuple(put), drop=frozenset(drop), snapshot=snapshot)
