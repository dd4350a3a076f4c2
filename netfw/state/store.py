"""Store: resources in memory, with a change log per agent root.

Sources that hold everything in memory are a thin layer above it.  Not thread-safe: the owner locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import uuid4

from attrs import evolve

from netfw.drivers.state_source import Cursor, Delta
from netfw.errors import CursorLost
from netfw.model.agent import Agent
from netfw.model.resource import Ref, Resource, ref
from netfw.state.change_log import ChangeLog
from netfw.state.dependencies import (
    DELIVERED,
    REPORTED,
    AgentRoot,
    Assignment,
    Edge,
    Item,
    ResourceRole,
    edges,
)
from netfw.state.dependency_closure import ReachabilityIndex, Touched

Key = Ref | Assignment
"""The key of an item; an assignment is its own key."""


class Store:
    """Resources, assignments and their changes.  Commits are numbered from *start*."""

    def __init__(self, retention: int, start: int = 0) -> None:
        self._retention, self._start = retention, start
        self._reset()

    def _reset(self) -> None:
        self._epoch = uuid4().hex
        self._resources: dict[Ref, Resource] = {}
        self._assignments: set[Assignment] = set()
        self._reachability = ReachabilityIndex()
        self._log = ChangeLog(self._retention, self._start)

    @property
    def resources(self) -> Mapping[Ref, Resource]:
        return self._resources

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self._resources.values(), *self._assignments)

    @property
    def cursor(self) -> Cursor:
        """The cursor of the newest commit."""
        return Cursor(self._epoch, self._log.seq)

    def restore(self, items: Iterable[Item]) -> None:
        """Start a new history with *items*; cursors of the old one are lost."""
        self._reset()
        self.commit(items, ())

    def discard_history(self) -> None:
        """Discard the change log; resources stay."""
        self._log.clear()

    def commit(self, put: Iterable[Item], remove: Iterable[Key]) -> Touched:
        """Apply everything in one commit; return the agent roots and resources it concerns.

        Putting an equal item, or removing an absent one, is no change.
        """
        changed = self._changes(put, remove)
        if not changed:
            return {}
        removed: list[Edge] = []
        added: list[Edge] = []
        for key, item in changed.items():
            old = self._get(key)
            before = frozenset[Edge]() if old is None else edges(old)
            after = frozenset[Edge]() if item is None else edges(item)
            removed += before - after
            added += after - before
            self._set(key, item)
        touched = {
            root: set(refs) for root, refs in self._reachability.change(removed, added).items()
        }
        for key in changed:
            if isinstance(key, Ref):
                for root in self._reachability.concerned(key):
                    touched.setdefault(root, set()).add(key)
        self._log.append(touched)
        return touched

    def reached(self, roots: Iterable[AgentRoot]) -> list[Ref]:
        """Return the existing resources that *roots* reach."""
        found = set[Ref]().union(*(self._reachability.reached(root) for root in roots))
        return [key for key in found if key in self._resources]

    def present(self, refs: Iterable[Ref]) -> tuple[Resource, ...]:
        """Return those of *refs* that exist, as they are now."""
        return tuple(self._resources[key] for key in refs if key in self._resources)

    def changes(self, roots: frozenset[AgentRoot], since: Cursor, page: int) -> Delta:
        """Return the changes for *roots*: whole commits, at least one, until a page is full.

        :raises CursorLost: the change log does not reach back to *since*.
        """
        self._check(since)
        refs: set[Ref] = set()
        commits = self._log.since(since.seq, roots)
        seq, more = self._log.seq, False
        for number, touched in commits:
            refs |= touched
            if len(refs) >= page and next(commits, None) is not None:
                seq, more = number, True
                break
        wanted = [key for key in refs if self._concerns(key, roots)]
        return Delta(
            put=self.present(wanted),
            drop=frozenset(refs).difference(wanted),
            cursor=Cursor(self._epoch, seq),
            more=more,
        )

    def serves(self, root: AgentRoot, target: Ref) -> bool:
        """Return whether the service of a host implements *target*, rather than only reads it."""
        return self._reachability.reaches(root, target, REPORTED)

    def reaches(self, root: AgentRoot, node: ResourceRole) -> bool:
        """Return whether *root* reaches *node*."""
        return self._reachability.reaches(root, node.ref, (node.role,))

    def _concerns(self, key: Ref, roots: Iterable[AgentRoot]) -> bool:
        return key in self._resources and any(
            self._reachability.reaches(root, key, DELIVERED) for root in roots
        )

    def _check(self, since: Cursor) -> None:
        if since.epoch != self._epoch:
            raise CursorLost("the store was restored; take a snapshot")
        if not self._log.oldest <= since.seq <= self._log.seq:
            raise CursorLost(
                f"change {since.seq} is not within {self._log.oldest} to {self._log.seq}, "
                "which is all that is kept; take a snapshot"
            )

    def _changes(self, put: Iterable[Item], remove: Iterable[Key]) -> dict[Key, Item | None]:
        changed: dict[Key, Item | None] = {}
        for key in remove:
            if self._get(key) is not None:
                changed[key] = None
        for item in put:
            if isinstance(item, Assignment):
                changed[item] = item
            else:
                changed[ref(item)] = _with_revision(
                    item, self._get_resource(item), self._log.seq + 1
                )
        return {key: item for key, item in changed.items() if item != self._get(key)}

    def _get_resource(self, resource: Resource) -> Resource | None:
        return self._resources.get(ref(resource))

    def _get(self, key: Key) -> Item | None:
        if isinstance(key, Assignment):
            return key if key in self._assignments else None
        return self._resources.get(key)

    def _set(self, key: Key, item: Item | None) -> None:
        if isinstance(key, Assignment):
            (self._assignments.discard if item is None else self._assignments.add)(key)
        elif item is None:
            del self._resources[key]
        elif not isinstance(item, Assignment):
            self._resources[key] = item


def _with_revision(new: Resource, old: Resource | None, seq: int) -> Resource:
    """Return *new* with a revision above that of *old*, or *old* if only times differ."""
    if old is None:
        return new if new.revision else evolve(new, revision=seq)
    if new.revision > old.revision:
        return new
    same = evolve(new, revision=old.revision)
    if isinstance(same, Agent) and isinstance(old, Agent):
        same = evolve(same, heartbeat_at=old.heartbeat_at)
    return old if same == old else evolve(new, revision=max(seq, old.revision + 1))
