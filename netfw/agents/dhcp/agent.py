"""DhcpAgent: serves the networks that are assigned to this host, by a DHCP driver.

It joins what decides (`desired`, `metadata`, `statuses`) with what does (`serving`), and lets
networks be worked on at the same time: a pass orders what is to be done and tells what became of
what was ordered.  So a network that takes long keeps nobody waiting but itself.
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
from netfw.agents.dhcp.state_report import DhcpAgentConfig, check, make_state_report
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
    """What this host holds and nobody wants; removing it is tried again like anything else."""

    def __str__(self) -> str:
        return "what was left behind"


LEFTOVERS = Garbage()
AgentKey = DhcpKey | Garbage
"""What the DHCP agent retries, each on its own."""


@frozen
class JobFinished(Event):
    """Something that was ordered was carried out."""


class DhcpAgent(HostAgent[AgentKey]):
    """The work of a DHCP agent, for :class:`~netfw.agents.common.loop.Loop`.

    The drivers are used, and closed by whoever made them after :meth:`close`.

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
        check(settings, None if metadata is None else metadata.describe())
        self.binary = settings.binary
        self._settings, self._driver = settings, driver
        self._view = DhcpHostContext(
            host=settings.host, gateways=settings.gateways, metadata=settings.metadata
        )
        self._serving = JobExecutor(settings.host, source, driver, metadata)
        self.resources: DhcpResourceIndex = DhcpResourceIndex()
        self._desired = Desired(self._view, self.resources, self._serving.answers)
        self._ledger = JobTracker()
        self._statuses = DhcpStatusReporter(settings.host)
        self._sink: Sink = lambda event: None
        self._crew: KeyedWorkerPool[NetworkId, Job, Outcome[DhcpKey]] = KeyedWorkerPool(
            settings.threads,
            self._serving.carry_out,
            Job.then,
            lambda: self._sink(JobFinished("something was carried out")),
        )
        self._leads = settings.metadata != MetadataPolicy()
        self._sweep_is_due = self._reread_is_due = False
        self._finish_by: float | None = None
        self._faults: Mapping[str, str] = {}

    @property
    def interest(self) -> Subscription:
        return Subscription(self._settings.host, {Service.DHCP})

    def watch(self, sink: Sink) -> None:
        self._sink = sink
        self._serving.watch(sink)

    def begin(self) -> None:
        self._faults = self._serving.faults(with_metadata=self._leads)

    def apply_delta(self, change: ReplicaDelta) -> frozenset[AgentKey]:
        former = self._desired
        if change.complete:
            self._desired = Desired(self._view, self.resources, self._serving.answers)
        self._desired.apply(change.changes)
        keys = self._desired.take_changed()
        touched = self._desired.take_touched()
        if change.complete:
            keys |= former.all_keys() - self._desired.all_keys()
            touched |= frozenset(former.ports)
        self._statuses.touch(touched)
        self._ledger.request(keys)
        return keys

    def rescan(self) -> frozenset[AgentKey]:
        return frozenset()  # the drivers hold nothing that the source does not know of

    def handle_events(self, events: Sequence[Event]) -> frozenset[AgentKey]:
        stirred = frozenset[DhcpKey]()
        for event in events:
            if isinstance(event, ProcessDied):
                if event.fatal:
                    raise AgentMustEnd(event.reason)
                LOG.warning("%s", event.reason)
            if isinstance(event, KeysChanged):
                stirred |= self._ledger.invalidate(self._concerned(event.keys))
        self._collect()
        return self._ledger.news | stirred | ({LEFTOVERS} if self._sweep_is_due else frozenset())

    def converge(self, task: ConvergeRequest[AgentKey]) -> ConvergeResult[AgentKey]:
        self._collect()
        self._ledger.retry(key for key in task.keys if not isinstance(key, Garbage))
        if task.complete:
            self.begin()  # what the host lacked may have come
            self._ledger.request(self._desired.all_keys(), routine=True)
        self._sweep_is_due |= task.complete or LEFTOVERS in task.keys
        self._reread_is_due |= task.reread
        swept = self._sweep() if self._sweep_is_due else Outcome()
        ordered = frozenset[DhcpKey]()
        if LEFTOVERS not in swept.waiting:
            ordered = self._give(self._ledger.orders(self._desired))
            self._collect()
        return self._passed(task.keys | ordered, swept)

    def everything(self) -> Iterator[DriverUpdate]:
        """All that is wanted of each driver, for a dry run: nothing is asked of the source."""
        return self._serving.everything(self._desired.networks, self._desired.ports)

    def reports(self) -> Sequence[Report]:
        return self._statuses.take(self._desired, self._ledger.is_open)

    def resend_reports(self) -> None:
        self._statuses.say_again()

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(
            self._settings, self._driver.describe(), self.counts(), start=start
        )

    def counts(self) -> Mapping[str, int]:
        wishes = self._desired.networks
        served = [wishes[id] for id in self._ledger.networks if id in wishes]
        return {
            "networks": len(self._ledger.networks),
            "subnets": sum(len(wish.subnets) for wish in served),
            "ports": len(self._ledger.ports),
        }

    def warnings(self) -> Mapping[str, str]:
        return self._faults

    def close(self) -> None:
        """Begin nothing more; what is served stays so."""
        self._crew.close()

    def _sweep(self) -> Outcome[AgentKey]:
        """Remove what nobody wants, alone: what nobody has begun is ordered again afterwards."""
        for order in self._crew.recall():
            self._ledger.recall(order)
        if self._crew.busy:
            return self._let_finish()
        self._collect()
        self._sweep_is_due, self._finish_by = False, None
        try:
            if self._reread_is_due:
                self._serving.reread()
                self._reread_is_due = False
            gone = self._serving.sweep(self._desired.networks, self._desired.ports)
        except BackendLocked:
            self._sweep_is_due = True
            raise  # and what is to be served, and said of ports, is another agent's, too
        except NetfwError as exc:
            return Outcome(failed={LEFTOVERS: exc})
        self._ledger.request(gone)  # so that their ports are given back
        return Outcome(done=frozenset({LEFTOVERS}))

    def _let_finish(self) -> Outcome[AgentKey]:
        """Order nothing for a moment, so that what is at work ends; not longer."""
        now = time.monotonic()
        if self._finish_by is None:
            self._finish_by = now + self._settings.pause
        if now < self._finish_by:
            return Outcome(waiting={LEFTOVERS: "the end of what is being served"})
        self._sweep_is_due, self._finish_by = False, None
        late = BackendUnavailable("it cannot be removed beside a network that takes long")
        return Outcome(failed={LEFTOVERS: late})

    def _give(self, orders: Iterable[Job]) -> frozenset[DhcpKey]:
        """Have *orders* carried out, and wait a moment for them; their keys."""
        given = tuple(orders)
        for order in given:
            self._crew.give(order.network, order, urgent=order.wish is None)
        self._crew.wait((order.network for order in given), self._settings.patience)
        return frozenset(key for order in given for key in order)

    def _collect(self) -> None:
        for report in self._crew.collect():
            self._ledger.take(report.order, report.result)

    def _passed(
        self, keys: Iterable[AgentKey], swept: Outcome[AgentKey]
    ) -> ConvergeResult[AgentKey]:
        settled = self._ledger.take_settled()
        self._statuses.settle(settled)
        open = (key for key in keys if not isinstance(key, Garbage) and self._ledger.is_open(key))
        waiting: dict[AgentKey, str] = dict.fromkeys(open, "being served")
        waiting |= swept.waiting
        waiting |= {key: why for key, why in settled.waiting.items()}  # noqa: C416 - wider keys
        failed: dict[AgentKey, NetfwError] = dict(swept.failed)
        failed |= {key: error for key, error in settled.failed.items()}  # noqa: C416
        done = swept.done | settled.done
        return ConvergeResult(outcome=Outcome(done, failed, waiting), counts=settled.counts)

    def _concerned(self, keys: Iterable[Hashable]) -> frozenset[DhcpKey]:
        """What is to be looked at, of what drivers speak of."""
        found: set[DhcpKey] = set()
        for key in keys:
            match key:
                case RouterKey():
                    network = self._serving.network_of(key)
                    found |= set() if network is None else {NetworkKey(network)}
                case NetworkKey() | PortKey():
                    found.add(key)
        return frozenset(key for key in found if self._is_known(key))

    def _is_known(self, key: DhcpKey) -> bool:
        if isinstance(key, NetworkKey):
            return key.network in self._desired.networks or self._ledger.is_served(key)
        return key.port in self._desired.ports or self._ledger.is_served(key)


__all__ = ["DhcpAgent", "DhcpAgentConfig", "Garbage"]
