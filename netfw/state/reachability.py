"""Reach: what each root reaches, kept current edge by edge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TypeVar

from netfw.model.resource import Ref
from netfw.state.dependencies import DELIVERED, AgentRoot, Edge, ResourceRole, Role, Source

T = TypeVar("T", ResourceRole, AgentRoot, Ref)

Touched = Mapping[AgentRoot, Set[Ref]]
"""Whom a commit concerns, and in what."""


class ReachabilityIndex:
    """A graph that knows what can be reached from each root.

    Every node counts, for each root, the edges over which the root reaches it; the graph has no
    cycles, so a node is reached while its count is not zero.  A change costs what it makes
    reachable or unreachable, not what the graph holds.  Not thread-safe: its owner locks.
    """

    def __init__(self) -> None:
        self._out: dict[Source, Counter[ResourceRole]] = {}
        """Edges, with how many items contribute each."""
        self._ways: dict[ResourceRole, Counter[AgentRoot]] = {}
        self._reached: dict[AgentRoot, Counter[Ref]] = {}
        """Refs, with in how many delivered facets they are reached."""

    def change(self, removed: Iterable[Edge], added: Iterable[Edge]) -> Touched:
        """Take edges out and in; return what each root reaches that it did not, or did before."""
        flipped: dict[AgentRoot, set[Ref]] = defaultdict(set)
        for source, node in added:  # first, so that what stays reachable is never let go
            self._add(source, node, flipped)
        for source, node in removed:
            self._remove(source, node, flipped)
        return flipped

    def reached(self, root: AgentRoot) -> Set[Ref]:
        """What *root* reaches now, whether or not such a resource exists."""
        return self._reached.get(root, Counter()).keys()

    def reaches(self, root: AgentRoot, ref: Ref, facets: Iterable[Role] = DELIVERED) -> bool:
        """Whether *root* reaches *ref* as one of *facets*."""
        return any(root in self._ways.get(ResourceRole(ref, facet), ()) for facet in facets)

    def concerned(self, ref: Ref) -> Iterator[AgentRoot]:
        """The roots to which *ref* is delivered; some perhaps twice."""
        for facet in DELIVERED:
            yield from self._ways.get(ResourceRole(ref, facet), ())

    def _add(self, source: Source, node: ResourceRole, flipped: dict[AgentRoot, set[Ref]]) -> None:
        out = self._out.setdefault(source, Counter())
        out[node] += 1
        if out[node] == 1:
            for root in self._holders(source):
                self._enter(root, node, flipped)

    def _remove(
        self, source: Source, node: ResourceRole, flipped: dict[AgentRoot, set[Ref]]
    ) -> None:
        out = self._out[source]
        if not _decrement(out, node):
            if not out:
                del self._out[source]
            for root in self._holders(source):
                self._leave(root, node, flipped)

    def _holders(self, source: Source) -> tuple[AgentRoot, ...]:
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
        if node.facet in DELIVERED:
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
        if node.facet in DELIVERED:
            _decrement(self._reached[root], node.ref)
            flipped[root].add(node.ref)
        for onward in self._out.get(node, ()):
            self._leave(root, onward, flipped)


def _decrement(counter: Counter[T], key: T) -> int:
    """Count one less of *key*, forget it at none, and say how many are left."""
    left = counter[key] - 1
    if left:
        counter[key] = left
    else:
        del counter[key]
    return left
