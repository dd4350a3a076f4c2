"""Incremental reachability: what each agent root reaches, updated edge by edge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TypeVar

from netfw.model.resource import Ref
from netfw.state.dependencies import DELIVERED, AgentRoot, Edge, ResourceRole, Role, Source

T = TypeVar("T", ResourceRole, AgentRoot, Ref)

Touched = Mapping[AgentRoot, Set[Ref]]
"""The agent roots that a commit concerns, each with the resources that changed for it."""


class ReachabilityIndex:
    """A graph with the set of nodes that each root reaches.

    Every node counts, for each root, the edges over which the root reaches it; the graph has no
    cycles, so a node is reached while its count is not zero.  A change costs what it makes
    reachable or unreachable, not the size of the graph.  Not
    thread-safe.
    """

    def __init__(self) -> None:
        self._out: dict[Source, Counter[ResourceRole]] = {}
        """Edges, each with the number of items that contribute it."""
        self._ways: dict[ResourceRole, Counter[AgentRoot]] = {}
        self._reached: dict[AgentRoot, Counter[Ref]] = {}
        """Refs, each with the number of delivered roles in which it is reached."""

    def change(self, removed: Iterable[Edge], added: Iterable[Edge]) -> Touched:
        """Remove and add edges; return what became reachable or unreachable for each root."""
        flipped: dict[AgentRoot, set[Ref]] = defaultdict(set)
        for source, node in added:  # first, so that what stays reachable does not flip
            self._add(source, node, flipped)
        for source, node in removed:
            self._remove(source, node, flipped)
        return flipped

    def reached(self, root: AgentRoot) -> Set[Ref]:
        """Return what *root* reaches now, whether or not such a resource exists."""
        return self._reached.get(root, Counter()).keys()

    def reaches(self, root: AgentRoot, ref: Ref, roles: Iterable[Role] = DELIVERED) -> bool:
        """Return whether *root* reaches *ref* in one of *roles*."""
        return any(root in self._ways.get(ResourceRole(ref, role), ()) for role in roles)

    def concerned(self, ref: Ref) -> Iterator[AgentRoot]:
        """Yield the roots that *ref* is delivered to; a root may come twice."""
        for role in DELIVERED:
            yield from self._ways.get(ResourceRole(ref, role), ())

    def _add(self, source: Source, node: ResourceRole, flipped: dict[AgentRoot, set[Ref]]) -> None:
        out = self._out.setdefault(source, Counter())
        out[node] += 1
        if out[node] == 1:
            for root in self._roots_of(source):
                self._enter(root, node, flipped)

    def _remove(
        self, source: Source, node: ResourceRole, flipped: dict[AgentRoot, set[Ref]]
    ) -> None:
        out = self._out[source]
        if not _decrement(out, node):
            if not out:
                del self._out[source]
            for root in self._roots_of(source):
                self._leave(root, node, flipped)

    def _roots_of(self, source: Source) -> tuple[AgentRoot, ...]:
        if isinstance(source, AgentRoot):
            return (source,)
        return tuple(self._ways.get(source, ()))

    def _enter(
        self, root: AgentRoot, node: ResourceRole, flipped: dict[AgentRoot, set[Ref]]
    ) -> None:
        ways = self._ways.setdefault(node, Counter())
        ways[root] += 1
        if ways[root] > 1:
            return
        if node.role in DELIVERED:
            self._reached.setdefault(root, Counter())[node.ref] += 1
            flipped[root].add(node.ref)
        for onward in self._out.get(node, ()):
            self._enter(root, onward, flipped)

    def _leave(
        self, root: AgentRoot, node: ResourceRole, flipped: dict[AgentRoot, set[Ref]]
    ) -> None:
        ways = self._ways[node]
        if _decrement(ways, root):
            return
        if not ways:
            del self._ways[node]
        if node.role in DELIVERED:
            _decrement(self._reached[root], node.ref)
            flipped[root].add(node.ref)
        for onward in self._out.get(node, ()):
            self._leave(root, onward, flipped)


def _decrement(counter: Counter[T], key: T) -> int:
    """Decrement the count of *key*, delete it at zero, and return the rest."""
    left = counter[key] - 1
    if left:
        counter[key] = left
    else:
        del counter[key]
    return left
