"""Jobs: the changes of one group of keys, as a value for a worker thread.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from attrs import evolve, field, frozen

G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class JobPriority(enum.IntEnum):
    """The order of queued jobs; jobs of equal priority are executed in the order of submission."""

    REMOVAL = 0
    """Only removes keys."""
    CHANGE = 1
    """Something changed at the source or on the machine, or is retried."""
    BACKGROUND = 2
    """The first read of the source, or a complete pass: nothing is known to have changed."""


@frozen(kw_only=True)
class Job(Generic[G, K, V]):
    """The changes of one group: a network with its ports, a router with its floating IPs."""

    group: G
    put: Mapping[K, V] = field(factory=dict)
    drop: frozenset[K] = frozenset()
    serials: Mapping[K, int] = field(factory=dict)
    """The serial number of the job that each key is from."""
    priority: JobPriority = JobPriority.CHANGE

    def __iter__(self) -> Iterator[K]:
        """Yield the keys that the job is about."""
        yield from self.put
        yield from self.drop

    def then(self, newer: Job[G, K, V]) -> Job[G, K, V]:
        """Return both jobs as one; *newer* wins where both name a key."""
        put = {key: value for key, value in self.put.items() if key not in newer.drop}
        return evolve(
            newer,
            put={**put, **newer.put},
            drop=(self.drop - newer.put.keys()) | newer.drop,
            serials={**self.serials, **newer.serials},
            priority=min(self.priority, newer.priority),
        )
