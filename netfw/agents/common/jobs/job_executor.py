"""Executor of jobs: converges one group at a time with the drivers of the host."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

from attrs import evolve, field, frozen

from netfw.agents.common.agent import reread
from netfw.agents.common.jobs.jobs import Job
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.values.events import Sink
from netfw.errors import BackendLocked, BackendUnavailable, DriverCrashed, NetfwError
from netfw.plan import Outcome, Update

LOG = logging.getLogger(__name__)
G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@frozen(kw_only=True)
class SweepResult(Generic[K]):
    """The result of removing what is not desired."""

    requeued: frozenset[K] = frozenset()
    """The keys to converge after it."""
    failed: Mapping[Hashable, NetfwError] = field(factory=dict)
    """What cannot be removed, and why; the rest is removed."""


class JobExecutor(ABC, Generic[G, K, V]):
    """Executes jobs.  Called by several threads, never by two for one group."""

    def __init__(self, *drivers: HostDriver[Any, Any]) -> None:
        self._drivers = drivers

    def execute(self, job: Job[G, K, V]) -> Outcome[K]:
        """Execute *job*; return the outcome of each of its keys.  Never raises."""
        try:
            return self.execute_job(job)
        except NetfwError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001 - a defect degrades its group, not the agent
            error = DriverCrashed(f"internal error: {type(exc).__name__}: {exc}")
            error.__cause__ = exc
        return Outcome(failed=dict.fromkeys(job, error))

    @abstractmethod
    def execute_job(self, job: Job[G, K, V]) -> Outcome[K]:
        """Execute *job*; return the outcome of each of its keys.

        :raises NetfwError: every key of the job failed.
        """

    def reread(self) -> NetfwError | None:
        """Have the drivers read the machine instead of trusting their mirrors.

        Return why one of them cannot; the others have.

        :raises BackendUnavailable: the machine does not answer.
        """
        return reread(self._drivers)

    def watch(self, sink: Sink) -> None:
        """Have the drivers send their events to *sink*."""
        for driver in self._drivers:
            driver.watch(sink)

    def acquire_locks(self) -> None:
        """Have each driver in use acquire its lock, if it has one, by an update of nothing.

        Whatever else is wrong with a driver is an error of the jobs that need it.

        :raises BackendLocked: another agent holds a lock.
        """
        for driver in self.in_use():
            try:
                driver.converge(Update())
            except BackendLocked:
                raise
            except Exception:
                LOG.debug("%s: an update of nothing failed", driver.describe().name, exc_info=True)

    def problems(self) -> dict[str, str]:
        """Return what this host lacks, for each driver in use."""
        texts = {f"driver {driver.describe().name}": driver.problems() for driver in self.in_use()}
        return {name: "; ".join(problems) for name, problems in texts.items() if problems}

    def in_use(self) -> tuple[HostDriver[Any, Any], ...]:
        """Return the drivers that are needed; the others only remove what they have."""
        return self._drivers


def with_failed(outcome: Outcome[K], key: K, error: NetfwError) -> Outcome[K]:
    """Return *outcome* with *key* among the failed."""
    return Outcome(
        done=outcome.done - {key},
        failed={**outcome.failed, key: error},
        waiting={other: why for other, why in outcome.waiting.items() if other != key},
    )


def with_waiting(outcome: Outcome[K], key: K, waits_for: str) -> Outcome[K]:
    """Return *outcome* with *key*, which was done, among those that wait."""
    return evolve(outcome, done=outcome.done - {key}, waiting={**outcome.waiting, key: waits_for})


def sweep_driver(driver: HostDriver[K, V], keep: frozenset[K]) -> Mapping[Hashable, NetfwError]:
    """Remove everything but *keep* from a driver; return what cannot be removed, and why.

    :raises BackendUnavailable: the machine does not answer.
    """
    failed: dict[Hashable, NetfwError] = {}
    try:
        swept = converge_isolated(driver, Update(complete=True, keep=keep))
        failed.update(swept.failed.items())
    except BackendUnavailable:
        raise
    except NetfwError:
        for key in driver.present() - keep:  # each by itself: one of them may cause the error
            dropped = converge_isolated(driver, Update(drop=frozenset({key})))
            failed.update(dropped.failed.items())
    return failed
