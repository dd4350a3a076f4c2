"""DhcpAgent: serves the networks that are assigned to this host, by a DHCP driver.

It joins the modules that decide (`desired`, `metadata_proxy`, `status_reports`) with the one that
acts (`executor`), and converges networks in parallel: a pass submits jobs to a worker pool and
returns the results that are there.  So a slow network delays no other network.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from netfw.agents.common.agent import ConvergeRequest, ConvergeResult, HostAgent
from netfw.agents.common.dry_run import DriverUpdate
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.worker_pool import KeyedWorkerPool
from netfw.agents.dhcp.desired import Desired, DhcpHostContext
from netfw.agents.dhcp.executor import JobExecutor
from netfw.agents.dhcp.job_tracker import JobTracker
from netfw.agents.dhcp.jobs import Job
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.agents.dhcp.resource_index import DhcpResourceIndex
from netfw.agents.dhcp.state_report import DhcpAgentConfig, make_state_report, validate_config
from netfw.agents.dhcp.status_reports import DhcpStatusReporter
from netfw.drivers.dhcp import DhcpDriver, DhcpKey
from netfw.drivers.events import Event, KeysChanged, ProcessDied, Sink
from netfw.drivers.keys import NetworkKey, PortKey, RouterKey
from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.reports import Heartbeat, Report
from netfw.drivers.state_source import StateSource
from netfw.drivers.subscription import Service, Subscription
from netfw.errors import AgentMustEnd, BackendLocked, BackendUnavailable, NetfwError
from netfw.model.ids import NetworkId
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)


@frozen
class Garbage:
    """The key of everything on this host that is not desired; retried like any key."""

    def __str__(self) -> str:
        return "garbage"


GARBAGE = Garbage()
AgentKey = DhcpKey | Garbage
"""What the DHCP agent retries, each on its own."""


@frozen
class JobFinished(Event):
    """A job was executed."""


class DhcpAgent(HostAgent[AgentKey]):
    """The work of a DHCP agent, for :class:`~netfw.agents.common.loop.Loop`.

    The caller closes the drivers, after :meth:`close`.

    :raises ConfigError: the settings contradict each other.
    """

    def __init__(
        self,
        settings: DhcpAgentConfig,
        source: StateSource,
        driver: DhcpDriver,
        *,
        metadata: MetadataDriver | None = None,
    ) -> None:
        validate_config(settings, None if metadata is None else metadata.describe())
        self.binary = settings.binary
        self._settings, self._driver = settings, driver
        self._view = DhcpHostContext(
            host=settings.host, gateways=settings.gateways, metadata=settings.metadata
        )
        self._executor = JobExecutor(settings.host, source, driver, metadata)
        self.resources: DhcpResourceIndex = DhcpResourceIndex()
        self._desired = Desired(self._view, self.resources, self._executor.answers)
        self._jobs = JobTracker()
        self._statuses = DhcpStatusReporter(settings.host)
        self._sink: Sink = lambda event: None
        self._workers: KeyedWorkerPool[NetworkId, Job, Outcome[DhcpKey]] = KeyedWorkerPool(
            settings.threads,
            self._executor.execute,
            Job.then,
            lambda: self._sink(JobFinished("a job was executed")),
        )
        self._runs_proxies = settings.metadata != MetadataPolicy()
        self._sweep_is_due = self._reread_is_due = False
        self._finish_by: float | None = None
        self._problems: Mapping[str, str] = {}

    @property
    def subscription(self) -> Subscription:
        return Subscription(self._settings.host, {Service.DHCP})

    def watch(self, sink: Sink) -> None:
        self._sink = sink
        self._executor.watch(sink)

    def start(self) -> None:
        self._problems = self._executor.problems(with_metadata=self._runs_proxies)

    def apply_delta(self, change: ReplicaDelta) -> frozenset[AgentKey]:
        former = self._desired
        if change.complete:
            self._desired = Desired(self._view, self.resources, self._executor.answers)
        self._desired.apply(change.changes)
        keys = self._desired.take_changed()
        touched = self._desired.take_touched()
        if change.complete:
            keys |= former.all_keys() - self._desired.all_keys()
            touched |= frozenset(former.ports)
        self._statuses.touch(touched)
        self._jobs.request(keys)
        return keys

    def rescan(self) -> frozenset[AgentKey]:
        return frozenset()  # every key comes from the source

    def handle_events(self, events: Sequence[Event]) -> frozenset[AgentKey]:
        requeued = frozenset[DhcpKey]()
        for event in events:
            if isinstance(event, ProcessDied):
                if event.fatal:
                    raise AgentMustEnd(event.reason)
                LOG.warning("%s", event.reason)
            if isinstance(event, KeysChanged):
                requeued |= self._jobs.invalidate(self._concerned(event.keys))
        self._record_results()
        return self._jobs.unfinished | requeued | ({GARBAGE} if self._sweep_is_due else frozenset())

    def converge(self, task: ConvergeRequest[AgentKey]) -> ConvergeResult[AgentKey]:
        self._record_results()
        self._jobs.retry(key for key in task.keys if not isinstance(key, Garbage))
        if task.complete:
            self.start()  # the host may have what it lacked
            self._jobs.request(self._desired.all_keys(), routine=True)
        self._sweep_is_due |= task.complete or GARBAGE in task.keys
        self._reread_is_due |= task.reread
        swept = self._sweep() if self._sweep_is_due else Outcome()
        submitted = frozenset[DhcpKey]()
        if GARBAGE not in swept.waiting:
            submitted = self._submit(self._jobs.take_jobs(self._desired))
            self._record_results()
        return self._result(task.keys | submitted, swept)

    def everything(self) -> Iterator[DriverUpdate]:
        """Yield the complete update of each driver, for a dry run; sends no requests."""
        return self._executor.everything(self._desired.networks, self._desired.ports)

    def reports(self) -> Sequence[Report]:
        return self._statuses.take(self._desired, self._jobs.is_pending)

    def resend_reports(self) -> None:
        self._statuses.resend()

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(
            self._settings, self._driver.describe(), self.counts(), start=start
        )

    def counts(self) -> Mapping[str, int]:
        specs = self._desired.networks
        served = [specs[id] for id in self._jobs.networks if id in specs]
        return {
            "networks": len(self._jobs.networks),
            "subnets": sum(len(spec.subnets) for spec in served),
            "ports": len(self._jobs.ports),
        }

    def warnings(self) -> Mapping[str, str]:
        return self._problems

    def close(self) -> None:
        """Start no more jobs; what is served stays so."""
        self._workers.close()

    def _sweep(self) -> Outcome[AgentKey]:
        """Remove garbage while no job is running; queued jobs are submitted again afterwards."""
        for job in self._workers.cancel_queued():
            self._jobs.cancel(job)
        if self._workers.busy:
            return self._await_idle()
        self._record_results()
        self._sweep_is_due, self._finish_by = False, None
        try:
            if self._reread_is_due:
                self._executor.reread()
                self._reread_is_due = False
            gone = self._executor.sweep(self._desired.networks, self._desired.ports)
        except BackendLocked:
            self._sweep_is_due = True
            raise  # another agent serves, and reports the ports
        except NetfwError as exc:
            return Outcome(failed={GARBAGE: exc})
        self._jobs.request(gone)  # to release their ports
        return Outcome(done=frozenset({GARBAGE}))

    def _await_idle(self) -> Outcome[AgentKey]:
        """Submit nothing until the running jobs end, for a limited time."""
        now = time.monotonic()
        if self._finish_by is None:
            self._finish_by = now + self._settings.pause
        if now < self._finish_by:
            return Outcome(waiting={GARBAGE: "the end of running jobs"})
        self._sweep_is_due, self._finish_by = False, None
        late = BackendUnavailable("it cannot be removed while the job of a network is running")
        return Outcome(failed={GARBAGE: late})

    def _submit(self, jobs: Iterable[Job]) -> frozenset[DhcpKey]:
        """Submit *jobs* and wait a moment for them; return their keys."""
        submitted = tuple(jobs)
        for job in submitted:
            self._workers.submit(job.network, job, urgent=job.spec is None)
        self._workers.wait((job.network for job in submitted), self._settings.patience)
        return frozenset(key for job in submitted for key in job)

    def _record_results(self) -> None:
        for executed in self._workers.take_results():
            self._jobs.record(executed.job, executed.result)

    def _result(
        self, keys: Iterable[AgentKey], swept: Outcome[AgentKey]
    ) -> ConvergeResult[AgentKey]:
        results = self._jobs.take_results()
        self._statuses.record(results)
        is_pending = self._jobs.is_pending
        pending = (key for key in keys if not isinstance(key, Garbage) and is_pending(key))
        waiting: dict[AgentKey, str] = dict.fromkeys(pending, "its job")
        waiting |= swept.waiting
        waiting |= {key: why for key, why in results.waiting.items()}  # noqa: C416 - wider keys
        failed: dict[AgentKey, NetfwError] = dict(swept.failed)
        failed |= {key: error for key, error in results.failed.items()}  # noqa: C416
        done = swept.done | results.done
        return ConvergeResult(outcome=Outcome(done, failed, waiting), counts=results.counts)

    def _concerned(self, keys: Iterable[Hashable]) -> frozenset[DhcpKey]:
        """Return the keys to converge after an event of a driver about *keys*."""
        concerned: set[DhcpKey] = set()
        for key in keys:
            match key:
                case RouterKey():
                    network = self._executor.network_of(key)
                    concerned |= set() if network is None else {NetworkKey(network)}
                case NetworkKey() | PortKey():
                    concerned.add(key)
        return frozenset(key for key in concerned if self._is_known(key))

    def _is_known(self, key: DhcpKey) -> bool:
        if isinstance(key, NetworkKey):
            return key.network in self._desired.networks or self._jobs.is_served(key)
        return key.port in self._desired.ports or self._jobs.is_served(key)


__all__ = ["DhcpAgent", "DhcpAgentConfig", "Garbage"]
