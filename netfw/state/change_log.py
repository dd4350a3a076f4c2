"""Change log: the changed resources of each agent root, commit by commit, with retention."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Set
from itertools import groupby

from netfw.model.resource import Ref
from netfw.state.dependencies import AgentRoot
from netfw.state.dependency_closure import Touched

Entry = tuple[int, Set[Ref]]


class ChangeLog:
    """Commits in order, each with the agent roots it concerns.  Not thread-safe."""

    def __init__(self, retention: int, seq: int = 0) -> None:
        if retention < 1:
            raise ValueError(f"a change log keeps at least one commit, not {retention}")
        self._retention = retention
        self._commits: deque[frozenset[AgentRoot]] = deque()
        self._entries: dict[AgentRoot, list[Entry]] = {}
        self.seq = seq
        """The number of the newest commit."""

    @property
    def oldest(self) -> int:
        """The oldest commit whose successors are all in the log."""
        return self.seq - len(self._commits)

    def append(self, touched: Touched) -> int:
        """Record a commit and return its number."""
        self.seq += 1
        for root, refs in touched.items():
            self._entries.setdefault(root, []).append((self.seq, frozenset(refs)))
        self._commits.append(frozenset(touched))
        while len(self._commits) > self._retention:
            self._discard_oldest()
        return self.seq

    def clear(self) -> None:
        """Discard all commits."""
        self._commits.clear()
        self._entries.clear()

    def since(self, seq: int, roots: Iterable[AgentRoot]) -> Iterator[Entry]:
        """Yield the commits after *seq* that concern *roots*, in order, each once."""
        parts = (self._after(seq, root) for root in roots)
        merged = heapq.merge(*parts, key=_number)
        for number, entries in groupby(merged, key=_number):
            yield number, frozenset().union(*(refs for _, refs in entries))

    def _after(self, seq: int, root: AgentRoot) -> Iterator[Entry]:
        entries = self._entries.get(root, [])
        for at in range(bisect_right(entries, seq, key=_number), len(entries)):
            yield entries[at]

    def _discard_oldest(self) -> None:
        roots, gone = self._commits.popleft(), self.oldest
        for root in roots:
            entries = self._entries[root]
            stale = bisect_right(entries, gone, key=_number)
            if stale == len(entries):
                del self._entries[root]
            elif stale > len(entries) // 2:  # seldom, so that discarding stays cheap
                del entries[:stale]


def _number(entry: Entry) -> int:
    return entry[0]
