"""Job tracker: keys to submit, keys in submitted jobs, and their results.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from typing import Any, Generic, TypeVar, cast

from attrs import define, field

from netfw.agents.common.agent import Counts
from netfw.agents.common.grouped_state import GroupedState
from netfw.agents.common.jobs.jobs import Job, JobPriority
from netfw.errors import NetfwError
from netfw.plan import Outcome

G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T", bound=Hashable)


@define
class JobResults(Generic[K]):
    """The results of keys since the last `JobTracker.take_results`."""

    done: set[K] = field(factory=set)
    failed: dict[K, NetfwError] = field(factory=dict)
    waiting: dict[K, str] = field(factory=dict)
    counts: Counts = field(factory=Counts)

    def __contains__(self, key: K) -> bool:
        return key in self.done or key in self.failed or key in self.waiting

    def __iter__(self) -> Iterator[K]:
        yield from self.done
        yield from self.failed
        yield from self.waiting

    def discard(self, key: K) -> None:
        self.done.discard(key)
        self.failed.pop(key, None)
        self.waiting.pop(key, None)


@define
class JobBuilder(Generic[K, V]):
    """A job under construction."""

    put: dict[K, V] = field(factory=dict)
    drop: set[K] = field(factory=set)
    serials: dict[K, int] = field(factory=dict)

    def build(self, group: G, routine: Set[K]) -> Job[G, K, V]:
        priority = JobPriority.CHANGE
        if not self.put:
            priority = JobPriority.REMOVAL
        elif self.serials.keys() <= routine:
            priority = JobPriority.BACKGROUND
        return Job(
            group=group,
            put=self.put,
            drop=frozenset(self.drop),
            serials=self.serials,
            priority=priority,
        )


class JobTracker(Generic[G, K, V]):
    """Tracks each key by its newest job: it is submitted until that job was executed."""

    def __init__(self) -> None:
        self._requested: set[K] = set()
        self._routine: set[K] = set()
        """Requested or submitted keys that only a complete pass asks for."""
        self._submitted: dict[K, int] = {}
        self._serial = 0
        self._invalidated: set[K] = set()
        """Submitted keys that an event named since."""
        self._driver_groups: dict[K, G] = {}
        """The group that the driver has each key in."""
        self._moving: set[K] = set()
        """Keys that move to another group, once the driver has dropped them."""
        self._results: JobResults[K] = JobResults()
        self._served: defaultdict[type[Any], set[K]] = defaultdict(set)

    @property
    def unfinished(self) -> frozenset[K]:
        """The keys that have a new result, or are requested."""
        return frozenset(self._results) | self._requested

    @property
    def is_busy(self) -> bool:
        """Whether a key is requested or submitted."""
        return bool(self._requested or self._submitted)

    def served(self, key_type: type[T]) -> Set[T]:
        """Return the keys of one type that the driver has; a live view, not a copy."""
        return cast(Set[T], self._served[key_type])

    def is_served(self, key: K) -> bool:
        """Return whether the driver has a key."""
        return key in self._served[type(key)]

    def is_pending(self, key: K) -> bool:
        """Return whether a key is requested or submitted."""
        return key in self._requested or key in self._submitted

    def finished(self, keys: set[K]) -> set[K]:
        """Return those of *keys* that are not pending; fast for many."""
        return keys.difference(self._requested, self._submitted)

    def request(self, keys: Iterable[K], *, routine: bool = False) -> None:
        """Request *keys*, submitted or not; *routine*: nothing is known to have changed."""
        for key in keys:
            if not routine:
                self._routine.discard(key)
            elif not self.is_pending(key):
                self._routine.add(key)
            self._requested.add(key)
            self._results.discard(key)

    def invalidate(self, keys: Iterable[K]) -> frozenset[K]:
        """Handle an event about *keys*; return those that the caller requeues.

        A submitted key is requested again after its job, if that succeeds: the event may come from
        the job itself, or from a later change.  A failed key is left to its own retry.
        """
        again: set[K] = set()
        for key in keys:
            if key in self._submitted:
                self._invalidated.add(key)
            elif key in self._results and key not in self._results.failed:
                self.request({key})
            else:
                again.add(key)
        return frozenset(again)

    def retry(self, keys: Iterable[K]) -> None:
        """Request those of *keys* that are not pending and have no new result."""
        self.request(
            key for key in tuple(keys) if not self.is_pending(key) and key not in self._results
        )

    def take_jobs(self, desired: GroupedState[G, K, V]) -> list[Job[G, K, V]]:
        """Return jobs for all requested keys, one for each group, those first that go first."""
        self._serial += 1
        keys, self._requested = self._requested, set()
        builders: dict[G, JobBuilder[K, V]] = defaultdict(JobBuilder)
        for key in keys | self._unserved_dependents(keys, desired):
            group = self._add_to_job(key, desired, builders)
            if group is None:
                self._results.done.add(key)  # neither desired nor known to the driver
                self._routine.discard(key)
            else:
                self._submitted[key] = self._serial
                builders[group].serials[key] = self._serial
        groups = sorted(builders, key=desired.goes_first, reverse=True)
        return [builders[group].build(group, self._routine) for group in groups]

    def cancel(self, job: Job[G, K, V]) -> None:
        """Request the keys of a job again that was cancelled before it started."""
        for key, serial in job.serials.items():
            if self._submitted.get(key) == serial:
                del self._submitted[key]
                self._requested.add(key)

    def record(self, job: Job[G, K, V], outcome: Outcome[K]) -> None:
        """Record the outcome of a job."""
        in_force = outcome.in_force
        for key in job:
            put = key in job.put
            counts = self._count(key, put, outcome)
            if key in in_force:
                self._record_served(key, put)
            elif key in outcome.waiting:
                self._served[type(key)].discard(key)
            if self._submitted.get(key) != job.serials[key]:
                continue  # a newer job has it
            del self._submitted[key]
            if key in self._moving and key in outcome.done:
                self._moving.discard(key)
                self._requested.add(key)
            if key in self._invalidated:
                self._invalidated.discard(key)
                if key not in outcome.failed:
                    self._requested.add(key)
            if key in self._requested:
                continue
            self._record_result(key, outcome)
            self._results.counts += counts
            self._routine.discard(key)

    def take_results(self) -> JobResults[K]:
        """Return the results of keys since the last call."""
        results, self._results = self._results, JobResults()
        return results

    def _unserved_dependents(self, keys: Iterable[K], desired: GroupedState[G, K, V]) -> set[K]:
        """Return keys that are not served and may wait for one of *keys*."""
        dependents = (dependent for key in keys for dependent in desired.dependents(key))
        return {key for key in dependents if not self.is_served(key)}

    def _add_to_job(
        self, key: K, desired: GroupedState[G, K, V], builders: Mapping[G, JobBuilder[K, V]]
    ) -> G | None:
        """Add *key* to the job of its group, and return that; ``None``: nothing to do."""
        value = desired.value(key)
        group, former = desired.group(key, value), self._driver_groups.get(key)
        if former is not None and former != group:
            if value is not None:
                self._moving.add(key)
            builders[former].drop.add(key)
            return former
        if group is None:
            return None
        if value is None:
            builders[group].drop.add(key)
        else:
            builders[group].put[key] = value
            self._driver_groups[key] = group
        return group

    def _record_served(self, key: K, put: bool) -> None:
        """Record that the driver has a key, or has dropped it."""
        if put:
            self._served[type(key)].add(key)
        else:
            self._served[type(key)].discard(key)
            self._driver_groups.pop(key, None)

    def _record_result(self, key: K, outcome: Outcome[K]) -> None:
        if key in outcome.done:
            self._results.done.add(key)
        elif key in outcome.failed:
            self._results.failed[key] = outcome.failed[key]
        else:
            self._results.waiting[key] = outcome.waiting.get(key, "a result of the driver")

    def _count(self, key: K, put: bool, outcome: Outcome[K]) -> Counts:
        served = self.is_served(key)
        if key in outcome.failed:
            return Counts(failed=1)
        if key not in outcome.done:
            return Counts(waiting=1)
        if put:
            changed = served and key not in self._routine
            return Counts(added=int(not served), updated=int(changed))
        return Counts(removed=int(served))
