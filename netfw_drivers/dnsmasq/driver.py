"""DnsmasqDhcpDriver: a dnsmasq for each network, in a namespace of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Self, cast
from uuid import UUID

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.dhcp import (
    DhcpDriver,
    DhcpKey,
    DhcpLocation,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.events import Event, KeysChanged, ProcessDied, Sink
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.errors import Conflict, NetfwError, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.fs.atomic_files import size_of, write_problem
from netfw.linux.fs.directory_lock import DirectoryLock
from netfw.linux.fs.inotify import instance_limit_problem
from netfw.linux.process import Backoff, OnDeath, RespawnFailed, Running, Supervisor, why_missing
from netfw.linux.process import ProcessDied as Died
from netfw.linux.service_netns import ServiceNetnsExecutor
from netfw.model.device_names import DHCP_NAMESPACE, dhcp_namespace
from netfw.model.ids import NetworkId
from netfw.plan import Outcome, Plan, Stage, Update
from netfw_drivers.dnsmasq.config.settings import COMMAND, OPTIONS, Settings, settings_from
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Observed
from netfw_drivers.dnsmasq.plan.plan import owners, plan_dhcp, put_networks, steps
from netfw_drivers.dnsmasq.plan.reload import LEASE_BYTES
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import SERVICE, RunServer, StopServer, process_key
from netfw_drivers.dnsmasq.runtime.device_monitor import DeviceMonitor, is_device_of
from netfw_drivers.dnsmasq.runtime.executor import DnsmasqExecutor
from netfw_drivers.dnsmasq.runtime.health_check import HealthChecker
from netfw_drivers.dnsmasq.runtime.lease_file import read_consistent
from netfw_drivers.dnsmasq.runtime.path_access import access_problem
from netfw_drivers.dnsmasq.runtime.service_warnings import WarningLog, shortcomings
from netfw_drivers.dnsmasq.runtime.state_cache import StateCache, id_of
from netfw_drivers.dnsmasq.runtime.watch_markers import directories_there

GIVEN_UP = "somebody has given up addresses"
_CAPABILITIES = (Capability.PLAN, Capability.WATCH, Capability.DHCPV6)
_PROCESSES = (
    cfg.StrOpt(
        "check_child_process_action",
        default="respawn",
        choices=["respawn", "exit"],
        help="When a dnsmasq dies: start it again, or end the agent.",
    ),
    cfg.IntOpt(
        "check_child_process_interval",
        default=60,
        min=1,
        help="Seconds within which a dnsmasq that died is tried to be started again, at the most, "
        "and between two looks whether each one still answers.",
    ),
)


class DnsmasqDhcpDriver(DhcpDriver, Reconciler[DhcpKey, DhcpValue, Observed]):
    """Serves each network from a namespace of its own, with one file per port.

    The files, namespaces and processes are its only record.  A running dnsmasq whose command line
    is the wanted one is taken over as it is.  What is on disk is read once, and mirrored since.
    """

    VERSION: ClassVar[int] = 1
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (*OPTIONS, *_PROCESSES)

    def __init__(
        self,
        interface: InterfaceDriver,
        settings: Settings,
        *,
        on_death: OnDeath = OnDeath.RESPAWN,
        check_interval: float = 60.0,
    ) -> None:
        self._interface, self._stations = interface, ServiceNetnsExecutor(interface)
        self._settings = settings
        self._terms = DriverContext(
            settings=settings, device_name=interface.device_name, on_death=on_death
        )
        self._backoff = Backoff(most=check_interval)
        self._book = StateCache(self._terms)
        self._workshop = DnsmasqExecutor(self._book, self._processes, settings)
        self._lock = threading.Lock()
        self._directory_lock = DirectoryLock(
            settings.confs, "dhcp_confs", on_acquired=self._begin, publish=self._tell
        )
        self._supervisor: Supervisor | None = None
        self._watched: set[NetworkId] = set()
        expect_answer = settings.config_file is None
        self._pulse = HealthChecker(check_interval, self._served, expect_answer=expect_answer)
        self._sinks: list[Sink] = []
        self._devices = DeviceMonitor(self._stations, self._book.served_from, self._tell)
        self._conflicts: dict[DhcpKey, NetfwError] = {}
        self._complaints = WarningLog()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        interface = host.driver(InterfaceDriver)
        routed = Capability.GATEWAY_ADDRESSES in interface.describe().capabilities
        return cls(
            interface,
            evolve(settings_from(options), bridged=not routed),
            on_death=OnDeath(options["check_child_process_action"]),
            check_interval=options["check_child_process_interval"],
        )

    def describe(self) -> DriverInfo:
        return DriverInfo("dnsmasq", _CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        command = why_missing(self._settings.command, COMMAND)
        missing = (command, *map(why_missing, ("dhcp_release", "dhcp_release6")))
        confs = write_problem(self._settings.confs)
        advice = f"{confs}: correct dhcp_confs, or run as a user who may" if confs else None
        closed = access_problem(self._settings.confs, self._settings.user)
        told = map(self._book.desired_network, sorted(self._book.desired_networks(), key=str))
        short = (why for network in told if network for why in shortcomings(network))
        scarce = None if confs else instance_limit_problem(len(self._book.on_disk()))
        faults = (*missing, advice, closed, scarce, *short)
        return tuple(fault for fault in faults if fault is not None)

    def close(self) -> None:
        self._sinks.clear()
        self._begin()
        self._directory_lock.release()

    def watch(self, sink: Sink) -> None:
        """As every driver; a device that somebody else changed concerns its network."""
        if not self._sinks:
            self._interface.watch(self._devices.hear)
        self._sinks.append(sink)

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation:
        return self._terms.place(network, server)

    def present(self) -> frozenset[DhcpKey]:
        self._book.forget_all()
        networks = self._held_networks()
        ports = (port for network in networks for port in self._book.ports_on_disk(network))
        return frozenset({*map(NetworkKey, networks), *map(PortKey, ports)})

    def observe(self, scope: Update[DhcpKey, DhcpValue] | None) -> Observed:
        if scope is None:
            self._book.forget_all()
            networks = self._held_networks() | self._book.desired_networks()
            return self._observed(dict.fromkeys(networks, True), leases=True)
        concerned = self._concerned(scope)
        known = any(isinstance(key, PortKey) and key.port in self._book.homes() for key in scope)
        whole = any(isinstance(key, NetworkKey) for key in scope.put)
        return self._observed(concerned, leases=known or whole or scope.complete)

    def observe_anew(self, update: Update[DhcpKey, DhcpValue]) -> Observed:
        """Other networks may be at work in other threads: theirs are left alone."""
        concerned = self._concerned(update)
        for network in concerned:
            self._book.forget(network)
        return self._observed(concerned, leases=True)

    def plan(self, update: Update[DhcpKey, DhcpValue], observed: Observed) -> Plan:
        return plan_dhcp(update, observed, self._terms)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        self._directory_lock.acquire()
        self._workshop.check(plan)
        new = {key for key in put_networks(plan) if not self._book.files_of(key.network).there}
        for number, stage in enumerate(plan.stages):
            try:
                self._carry_out(stage)
            except OperationRefused as refusal:
                blamed = owners(refusal)
                if isinstance(refusal.__cause__, Conflict):
                    self._conflicts |= dict.fromkeys(blamed, refusal.__cause__)
                self._take_back(new & blamed)
                self._resume(plan.stages[:number], plan.stages[number:])
                raise
            checkpoint(stage)

    def converge(self, update: Update[DhcpKey, DhcpValue]) -> Outcome[DhcpKey]:
        """As every reconciler; and what runs as it should is watched from now on.

        :raises BackendLocked: another driver is at work in ``dhcp_confs``; `FeedLost` follows.
        """
        self._directory_lock.acquire()
        homes = self._book.homes()
        former: dict[DhcpKey, NetworkId] = {
            key: homes[key.port] for key in update if isinstance(key, PortKey) and key.port in homes
        }
        with self._devices.at_work(self._worked_at(update)) as done:
            outcome = super().converge(update)
            done.update(_networks(outcome.done & update.put.keys()))
        self._remember(update, outcome)
        lost = dict(self._keep_watch(outcome.done & update.put.keys()))
        lost |= {key: self._conflicts.get(key, error) for key, error in outcome.failed.items()}
        for key in (*update, *outcome.failed):
            self._conflicts.pop(key, None)
        self._wake(update, outcome, {former[key] for key in outcome.done & former.keys()})
        return evolve(outcome, done=outcome.done - lost.keys(), failed=lost)

    def _carry_out(self, stage: Stage) -> None:
        if self._stations.handles(stage):
            self._stations.apply(stage)
        else:
            self._workshop.carry_out(stage)

    def _take_back(self, networks: Iterable[NetworkKey]) -> None:
        """Remove what was made for *networks*: who cannot be served has nothing."""
        drop: Update[DhcpKey, DhcpValue] = Update(drop=frozenset(networks))
        for stage in self.plan(drop, self.observe(drop)).stages:
            self._carry_out(stage)

    def _resume(self, done: Iterable[Stage], undone: Iterable[Stage]) -> None:
        """Start what was ended for changes that came to nothing, with its files as they are."""
        ended = {step.network for step in steps(done) if isinstance(step, StopServer)}
        for stage in undone:
            for step in steps([stage]):
                if isinstance(step, RunServer) and step.files.network in ended:
                    with suppress(OperationRefused):  # the next try finds that it is to be started
                        self._carry_out(stage)

    def _concerned(self, scope: Update[DhcpKey, DhcpValue]) -> dict[NetworkId, bool]:
        """The networks that *scope* is about, and of which their namespace is, too."""
        homes = self._book.homes()
        ports = (key.port for key in scope if isinstance(key, PortKey))
        found = {homes[port]: False for port in ports if port in homes}
        for value in scope.put.values():
            if isinstance(value, DhcpPort):
                found[value.network] = False
        if scope.complete:
            found |= {
                network: NetworkKey(network) not in scope.keep for network in self._held_networks()
            }
        return found | {key.network: True for key in scope if isinstance(key, NetworkKey)}

    def _worked_at(self, update: Update[DhcpKey, DhcpValue]) -> set[NetworkId]:
        named = update.put.keys() | update.keep
        told = self._book.desired_networks() if update.complete else frozenset()
        garbage = {network for network in told if NetworkKey(network) not in named}
        return _networks(update) | garbage

    def _held_networks(self) -> frozenset[NetworkId]:
        """Networks of which there are files, a namespace or a process."""
        spaces = self._stations.namespaces(DHCP_NAMESPACE)
        named = {name.removeprefix(DHCP_NAMESPACE) for name in spaces}
        named |= {key.id for key in self._processes().present() if key.service == SERVICE}
        ids = (id_of(name) for name in named)
        return self._book.on_disk() | frozenset(NetworkId(id) for id in ids if id is not None)

    def _observed(self, networks: Mapping[NetworkId, bool], *, leases: bool) -> Observed:
        found = {
            id: self._look(id, looking, leases=leases)
            for id, looking in sorted(networks.items(), key=str)
        }
        return Observed(networks=found, homes=self._book.homes())

    def _look(self, id: NetworkId, looking: bool, *, leases: bool) -> FoundNetwork:
        namespace = dhcp_namespace(id)
        running = self._processes().running(process_key(id))
        digest = running.digest if running is not None and _is_in(namespace, running) else None
        files = self._terms.files(id)
        blind = digest is not None and self._book.files_of(id).watched != directories_there(files)
        if blind:
            self._book.forget(id)
        shelf, lease_file = self._book.files_of(id), files.leases
        pid = running.pid if running is not None else None
        adrift = digest is not None and not is_device_of(shelf.interface, pid)
        return FoundNetwork(
            shelf=shelf,
            told=self._book.desired_network(id),
            ports=self._book.desired_ports(id),
            station=self._stations.observe(namespace) if looking or blind or adrift else None,
            process=digest,
            blind=blind,
            adrift=adrift,
            stray=digest is None and self._processes().pid_path(process_key(id)).exists(),
            lease_count=size_of(lease_file) // LEASE_BYTES if shelf.there else 0,
            leases=read_consistent(lease_file, pid) if leases and shelf.there else "",
        )

    def _remember(self, update: Update[DhcpKey, DhcpValue], outcome: Outcome[DhcpKey]) -> None:
        """What is wanted, for the ports and networks that come later."""
        for key in outcome.done | outcome.waiting.keys():
            value = update.put.get(key)
            if isinstance(key, NetworkKey):
                self._complaints.about(key.network, cast(DhcpNetwork | None, value))
                self._book.set_desired_network(key.network, cast(DhcpNetwork | None, value))
            else:
                self._book.set_desired_port(key.port, cast(DhcpPort | None, value))
        if update.complete:
            self._book.forget_desired(update.put.keys() | update.keep)

    def _keep_watch(self, keys: Iterable[DhcpKey]) -> Iterator[tuple[DhcpKey, NetfwError]]:
        """Take over what runs, so that its death is noticed; those for which that went wrong."""
        for key in keys:
            if not isinstance(key, NetworkKey):
                continue
            network = self._book.desired_network(key.network)
            assert network is not None, "it was remembered"
            if self._sinks:
                self._devices.keep(key.network, self._terms.station(key.network, network))
            if key.network in self._watched:
                continue
            program = self._terms.recipe(key.network, network).program
            try:
                self._processes().start(process_key(key.network), program)
            except NetfwError as error:
                yield key, error
            else:
                self._watched.add(key.network)
                self._pulse.begin(self._processes())

    def _wake(
        self,
        update: Update[DhcpKey, DhcpValue],
        outcome: Outcome[DhcpKey],
        touched: set[NetworkId],
    ) -> None:
        """Tell of ports that waited for a network that is served now, or, on those *touched*, for
        what somebody has given up."""
        for key in update.drop:
            if isinstance(key, NetworkKey):
                self._watched.discard(key.network)
        served = _networks(outcome.done & update.put.keys())
        touched |= self._book.desired_networks() if update.complete else set()
        for network in served | {id for id in touched if self._book.files_of(id).there}:
            woken = self._book.waiting_no_more(network) - update.put.keys()
            if woken:
                why = "their network is served now" if network in served else GIVEN_UP
                self._tell(KeysChanged(why, woken))
        self._book.wait(key.port for key in outcome.waiting if isinstance(key, PortKey))

    def _served(self) -> Iterator[tuple[NetworkId, DhcpNetwork]]:
        """Whose process is watched over."""
        for id in tuple(self._watched):
            if (network := self._book.desired_network(id)) is not None:
                yield id, network

    def _begin(self) -> None:
        """Begin anew: what was read and is watched so far may have been another driver's."""
        self._pulse.end()
        with self._lock:
            supervisor, self._supervisor = self._supervisor, None
            self._watched.clear()
        if supervisor is not None:
            supervisor.close()
        self._devices.close()
        self._book.forget_all()

    def _processes(self) -> Supervisor:
        with self._lock:
            if self._supervisor is None:
                directory = self._settings.confs / "processes"
                self._supervisor = Supervisor(directory, self._heard, backoff=self._backoff)
            return self._supervisor

    def _heard(self, event: Event) -> None:
        """What the supervisor says, as the agent understands it."""
        match event:
            case Died(reason=reason, key=key, on_death=on_death, tail=tail):
                said = f"{reason}: {tail}" if tail else reason
                network = NetworkKey(NetworkId(UUID(key.id)))
                self._tell(ProcessDied(said, [network], on_death is OnDeath.TELL))
            case RespawnFailed(reason=reason, key=key):
                self._tell(KeysChanged(reason, [NetworkKey(NetworkId(UUID(key.id)))]))

    def _tell(self, event: Event) -> None:
        for sink in tuple(self._sinks):
            sink(event)


def _networks(keys: Iterable[DhcpKey]) -> set[NetworkId]:
    return {key.network for key in keys if isinstance(key, NetworkKey)}


def _is_in(namespace: str, running: Running) -> bool:
    """Whether it runs in the namespace that has the name now."""
    try:
        return running.namespace == netns.identity(namespace)
    except NotFound:
        return False
