"""Job tracker: keys to submit, keys in submitted jobs, and their results.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from netfw.agents.common.agent import Counts
from netfw.agents.dhcp.desired import Desired
from netfw.agents.dhcp.jobs import Job, NetworkSpec, RemoveNetwork
from netfw.drivers.dhcp import DhcpKey, DhcpPort
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.errors import NetfwError
from netfw.model.ids import NetworkId, PortId
from netfw.plan import Outcome


@define
class JobResults:
    """The results of keys since the last `JobTracker.take_results`."""

    done: set[DhcpKey] = field(factory=set)
    failed: dict[DhcpKey, NetfwError] = field(factory=dict)
    waiting: dict[DhcpKey, str] = field(factory=dict)
    counts: Counts = field(factory=Counts)

    def __contains__(self, key: DhcpKey) -> bool:
        return key in self.done or key in self.failed or key in self.waiting

    def __iter__(self) -> Iterator[DhcpKey]:
        yield from self.done
        yield from self.failed
        yield from self.waiting

    def discard(self, key: DhcpKey) -> None:
        self.done.discard(key)
        self.failed.pop(key, None)
        self.waiting.pop(key, None)


@define
class JobBuilder:
    """A job under construction."""

    spec: NetworkSpec | RemoveNetwork | None = None
    put: dict[PortKey, DhcpPort] = field(factory=dict)
    drop: set[PortKey] = field(factory=set)
    serials: dict[DhcpKey, int] = field(factory=dict)

    def build(self, network: NetworkId) -> Job:
        return Job(
            network=network,
            spec=self.spec,
            put=self.put,
            drop=frozenset(self.drop),
            serials=self.serials,
        )


class JobTracker:
    """Tracks each key by its newest job: it is submitted until that job was executed."""

    def __init__(self) -> None:
        self._requested: set[DhcpKey] = set()
        self._routine: set[DhcpKey] = set()
        """Requested or submitted keys that only a complete pass asks for."""
        self._submitted: dict[DhcpKey, int] = {}
        self._serial = 0
        self._invalidated: set[DhcpKey] = set()
        """Submitted keys that an event named since."""
        self._driver_networks: dict[PortId, NetworkId] = {}
        """The network that the driver has each port on."""
        self._moving: set[PortKey] = set()
        """Ports that move to another network, once the driver has dropped them."""
        self._results = JobResults()
        self.networks: set[NetworkId] = set()
        """The networks that are served."""
        self.ports: set[PortId] = set()
        """The ports that are served."""

    @property
    def unfinished(self) -> frozenset[DhcpKey]:
        """The keys that have a new result, or are requested."""
        return frozenset(self._results) | self._requested

    def is_pending(self, key: DhcpKey) -> bool:
        """Return whether a key is requested or submitted."""
        return key in self._requested or key in self._submitted

    def is_served(self, key: DhcpKey) -> bool:
        """Return whether the driver has a key."""
        return (
            key.network in self.networks if isinstance(key, NetworkKey) else key.port in self.ports
        )

    def request(self, keys: Iterable[DhcpKey], *, routine: bool = False) -> None:
        """Request *keys*, submitted or not."""
        for key in keys:
            if not routine:
                self._routine.discard(key)
            elif not self.is_pending(key):
                self._routine.add(key)
            self._requested.add(key)
            self._results.discard(key)

    def invalidate(self, keys: Iterable[DhcpKey]) -> frozenset[DhcpKey]:
        """Handle an event about *keys*; return those that the caller requeues.

        A submitted key is requested again after its job, if that succeeds: the event may come from
        the job itself, or from a later change.  A failed key is left to its own retry.
        """
        again: set[DhcpKey] = set()
        for key in keys:
            if key in self._submitted:
                self._invalidated.add(key)
            elif key in self._results and key not in self._results.failed:
                self.request({key})
            else:
                again.add(key)
        return frozenset(again)

    def retry(self, keys: Iterable[DhcpKey]) -> None:
        """Request those of *keys* that are neither submitted nor have a new result."""
        self.request(
            key for key in tuple(keys) if key not in self._submitted and key not in self._results
        )

    def take_jobs(self, desired: Desired) -> list[Job]:
        """Return jobs for all requested keys, one for each network."""
        self._serial += 1
        keys, self._requested = self._requested, set()
        builders: dict[NetworkId, JobBuilder] = defaultdict(JobBuilder)
        for key in keys | self._unserved_ports(keys, desired):
            network = self._add_to_job(key, desired, builders)
            if network is None:
                self._results.done.add(key)  # neither desired nor known to the driver
            else:
                self._submitted[key] = self._serial
                builders[network].serials[key] = self._serial
        return [builder.build(network) for network, builder in builders.items()]

    def cancel(self, job: Job) -> None:
        """Request the keys of a job again that was cancelled before it started."""
        for key, serial in job.serials.items():
            if self._submitted.get(key) == serial:
                del self._submitted[key]
                self._requested.add(key)

    def record(self, job: Job, outcome: Outcome[DhcpKey]) -> None:
        """Record the outcome of a job."""
        for key in job:
            put = key in job.put or (
                isinstance(key, NetworkKey) and not isinstance(job.spec, RemoveNetwork)
            )
            counts = self._count(key, put, outcome)
            if key in outcome.done:
                self._record_served(key, put)
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

    def take_results(self) -> JobResults:
        """Return the results of keys since the last call."""
        results, self._results = self._results, JobResults()
        return results

    def _unserved_ports(self, keys: Iterable[DhcpKey], desired: Desired) -> set[DhcpKey]:
        """Return ports of networks among *keys* that are not served: they may wait for it."""
        networks = [key.network for key in keys if isinstance(key, NetworkKey)]
        ports = (port for id in networks for port in desired.ports_of(id) if port in desired.ports)
        return {PortKey(port) for port in ports if port not in self.ports}

    def _add_to_job(
        self, key: DhcpKey, desired: Desired, builders: Mapping[NetworkId, JobBuilder]
    ) -> NetworkId | None:
        """Add *key* to the job of its network, and return that; ``None``: nothing to do."""
        if isinstance(key, NetworkKey):
            builders[key.network].spec = desired.networks.get(key.network, RemoveNetwork())
            return key.network
        value, former = desired.ports.get(key.port), self._driver_networks.get(key.port)
        if former is not None and (value is None or value.network != former):
            if value is not None:
                self._moving.add(key)
            builders[former].drop.add(key)
            return former
        if value is None:
            return None
        builders[value.network].put[key] = value
        self._driver_networks[key.port] = value.network
        return value.network

    def _record_served(self, key: DhcpKey, put: bool) -> None:
        """Record that the driver has a key, or has dropped it."""
        if isinstance(key, NetworkKey):
            (self.networks.add if put else self.networks.discard)(key.network)
        elif put:
            self.ports.add(key.port)
        else:
            self.ports.discard(key.port)
            self._driver_networks.pop(key.port, None)

    def _record_result(self, key: DhcpKey, outcome: Outcome[DhcpKey]) -> None:
        if key in outcome.done:
            self._results.done.add(key)
        elif key in outcome.failed:
            self._results.failed[key] = outcome.failed[key]
        else:
            self._results.waiting[key] = outcome.waiting.get(key, "a result of the driver")

    def _count(self, key: DhcpKey, put: bool, outcome: Outcome[DhcpKey]) -> Counts:
        served = self.is_served(key)
        if key in outcome.failed:
            return Counts(failed=1)
        if key not in outcome.done:
            return Counts(waiting=1)
        if put:
            changed = served and key not in self._routine
            return Counts(added=int(not served), updated=int(changed))
        return Counts(removed=int(served))
