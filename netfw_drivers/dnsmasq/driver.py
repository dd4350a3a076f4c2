"""DnsmasqDhcpDriver: one dnsmasq per network, in a namespace of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Self, cast
from uuid import UUID

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.dhcp import (
    DhcpCapability,
    DhcpDriver,
    DhcpKey,
    DhcpLocation,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceCapability, InterfaceDriver
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.support.unsupported_dhcp import restrict_network
from netfw.drivers.values.events import Event, KeysChanged, ProcessDied, Sink
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import Conflict, NetfwError, OperationRefused
from netfw.linux.fs.atomic_files import write_problem
from netfw.linux.fs.directory_lock import DirectoryLock
from netfw.linux.fs.inotify_limit import instance_limit_problem
from netfw.linux.fs.permissions import exposure_problem
from netfw.linux.process import (
    Backoff,
    OnDeath,
    ProcessExited,
    RespawnFailed,
    Supervisor,
    why_missing,
)
from netfw.linux.service_netns import ServiceNetnsExecutor
from netfw.model.values.ids import NetworkId
from netfw.plan import Outcome, Plan, Stage, Update
from netfw_drivers.dnsmasq.config.dhcp_opts import option_problem
from netfw_drivers.dnsmasq.config.settings import COMMAND, OPTIONS, Settings, settings_from
from netfw_drivers.dnsmasq.plan.observed import Observed
from netfw_drivers.dnsmasq.plan.plan import payloads, plan_dhcp, refused_owners, written_networks
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import RunServer, StopServer, process_key
from netfw_drivers.dnsmasq.runtime.device_monitor import DeviceMonitor
from netfw_drivers.dnsmasq.runtime.directories import access_problem
from netfw_drivers.dnsmasq.runtime.executor import DnsmasqExecutor
from netfw_drivers.dnsmasq.runtime.health_check import HealthChecker
from netfw_drivers.dnsmasq.runtime.network_observer import NetworkObserver
from netfw_drivers.dnsmasq.runtime.state_cache import StateCache
from netfw_drivers.dnsmasq.runtime.unserved_subnets import WarningLog, service_problems

ADDRESSES_RELEASED = "another port has released addresses"
_CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH, DhcpCapability.DHCPV6)
_PROCESSES = (
    cfg.StrOpt(
        "check_child_process_action",
        default="respawn",
        choices=[("respawn", "start it again"), ("exit", "end the agent")],
        help="When a dnsmasq dies: start it again, or end the agent.",
    ),
    cfg.IntOpt(
        "check_child_process_interval",
        default=60,
        min=1,
        help="Seconds between two attempts to restart a dnsmasq that died, at most, and between "
        "two health checks of each.",
    ),
)


class DnsmasqDhcpDriver(DhcpDriver, Reconciler[DhcpKey, DhcpValue, Observed]):
    """Serves each network from a namespace of its own, with one file per port.

    Files, namespaces and processes are its only record.  A running dnsmasq with the desired command
    line is adopted without a restart.  Files are read once and cached.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (*OPTIONS, *_PROCESSES)

    def __init__(
        self,
        interface: InterfaceDriver,
        settings: Settings,
        *,
        on_death: OnDeath = OnDeath.RESPAWN,
        check_interval: float = 60.0,
    ) -> None:
        self._interface, self._netns_executor = interface, ServiceNetnsExecutor(interface)
        self._settings = settings
        self._context = DriverContext(
            settings=settings, device_name=interface.device_name, on_death=on_death
        )
        self._backoff = Backoff(most=check_interval)
        self._cache = StateCache(self._context)
        self._observer = NetworkObserver(
            self._context, self._cache, self._netns_executor, self._processes
        )
        self._executor = DnsmasqExecutor(self._cache, self._processes, settings)
        self._lock = threading.Lock()
        self._directory_lock = DirectoryLock(
            settings.confs, "dhcp_confs", on_acquired=self._reset, publish=self._notify
        )
        self._supervisor: Supervisor | None = None
        self._watched: set[NetworkId] = set()
        expect_answer = settings.config_file is None
        self._health_checker = HealthChecker(
            check_interval, self._supervised_networks, expect_answer=expect_answer
        )
        self._sinks: list[Sink] = []
        self._device_monitor = DeviceMonitor(
            self._netns_executor, self._cache.served_from, self._notify
        )
        self._conflicts: dict[DhcpKey, NetfwError] = {}
        self._warnings = WarningLog()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        interface = host.driver(InterfaceDriver)
        routed = InterfaceCapability.GATEWAY_ADDRESSES in interface.describe().capabilities
        return cls(
            interface,
            evolve(settings_from(options), bridged=not routed),
            on_death=OnDeath(options["check_child_process_action"]),
            check_interval=options["check_child_process_interval"],
        )

    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        return DriverInfo("dnsmasq", _CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        command = why_missing(self._settings.command, COMMAND)
        missing = (command, *map(why_missing, ("dhcp_release", "dhcp_release6")))
        confs = write_problem(self._settings.confs)
        advice = f"{confs}: correct dhcp_confs, or run as a user who may" if confs else None
        closed = access_problem(self._settings.confs, self._settings.user)
        exposed = exposure_problem(self._settings.confs)
        desired = map(self._cache.desired_network, sorted(self._cache.desired_networks(), key=str))
        short = (why for network in desired if network for why in service_problems(network))
        scarce = None if confs else instance_limit_problem(len(self._cache.on_disk()))
        problems = (*missing, advice, closed, exposed, scarce, *short)
        return tuple(problem for problem in problems if problem is not None)

    def close(self) -> None:
        self._sinks.clear()
        self._reset()
        self._directory_lock.release()

    def watch(self, sink: Sink) -> None:
        """Also report the network of a device that another program changed."""
        if not self._sinks:
            self._interface.watch(self._device_monitor.handle_event)
        self._sinks.append(sink)

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation:
        return self._context.location(network, server)

    def present(self) -> frozenset[DhcpKey]:
        self._cache.invalidate_all()
        networks = self._observer.present_networks()
        ports = (port for network in networks for port in self._cache.ports_on_disk(network))
        return frozenset({*map(NetworkKey, networks), *map(PortKey, ports)})

    def observe(self, scope: Update[DhcpKey, DhcpValue] | None) -> Observed:
        if scope is None:
            self._cache.invalidate_all()
            networks = self._observer.present_networks() | self._cache.desired_networks()
            return self._observer.observe(dict.fromkeys(networks, True), leases=True)
        concerned = self._observer.concerned_networks(scope)
        known = any(
            isinstance(key, PortKey) and key.port in self._cache.port_networks() for key in scope
        )
        whole = any(isinstance(key, NetworkKey) for key in scope.put)
        return self._observer.observe(
            concerned,
            leases=known or whole or scope.complete,
            adopted=concerned.keys() - self._watched,
        )

    def observe_machine(self, update: Update[DhcpKey, DhcpValue]) -> Observed:
        """Invalidate the caches of the networks of *update* alone: other threads use the others."""
        concerned = self._observer.concerned_networks(update)
        for network in concerned:
            self._cache.invalidate(network)
        return self._observer.observe(concerned, leases=True)

    def plan(self, update: Update[DhcpKey, DhcpValue], observed: Observed) -> Plan:
        return plan_dhcp(update, observed, self._context)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        self._directory_lock.acquire()
        self._executor.check(plan)
        new = {
            key for key in written_networks(plan) if not self._cache.files_of(key.network).exists
        }
        for number, stage in enumerate(plan.stages):
            try:
                self._execute(stage)
            except OperationRefused as refusal:
                blamed = refused_owners(refusal)
                if isinstance(refusal.__cause__, Conflict):
                    self._conflicts |= dict.fromkeys(blamed, refusal.__cause__)
                self._remove_new(new & blamed)
                self._restart_stopped(plan.stages[:number], plan.stages[number:])
                raise
            checkpoint(stage)

    def converge(self, update: Update[DhcpKey, DhcpValue]) -> Outcome[DhcpKey]:
        """Converge as every reconciler does, then supervise the processes of converged networks.

        :raises BackendLocked: another driver holds the lock on ``dhcp_confs``; `FeedLost` follows.
        """
        self._directory_lock.acquire()
        port_networks = self._cache.port_networks()
        former: dict[DhcpKey, NetworkId] = {
            key: port_networks[key.port]
            for key in update
            if isinstance(key, PortKey) and key.port in port_networks
        }
        watch = bool(self._sinks)
        with self._device_monitor.in_progress(self._networks_of(update), watch=watch) as done:
            outcome = super().converge(update)
            in_force = outcome.in_force & update.put.keys()
            done.update(_networks(in_force))
            self._record_desired(update, outcome)
            lost = dict(self._supervise(in_force))
        failed = {key: self._conflicts.get(key, error) for key, error in outcome.failed.items()}
        lost = {**failed, **lost}
        for key in (*update, *outcome.failed):
            self._conflicts.pop(key, None)
        self._requeue_waiting(
            update, outcome, {former[key] for key in outcome.in_force & former.keys()}
        )
        return evolve(outcome, done=outcome.done - lost.keys(), failed=lost)

    def _execute(self, stage: Stage) -> None:
        if self._netns_executor.handles(stage):
            self._netns_executor.apply(stage)
        else:
            self._executor.execute(stage)

    def _remove_new(self, networks: Iterable[NetworkKey]) -> None:
        """Remove what was created for *networks*, which cannot be served."""
        drop: Update[DhcpKey, DhcpValue] = Update(drop=frozenset(networks))
        for stage in self.plan(drop, self.observe(drop)).stages:
            self._execute(stage)

    def _restart_stopped(self, done: Iterable[Stage], undone: Iterable[Stage]) -> None:
        """Start the processes that were stopped for changes that failed, on present files."""
        ended = {step.network for step in payloads(done) if isinstance(step, StopServer)}
        for stage in undone:
            for step in payloads([stage]):
                if isinstance(step, RunServer) and step.files.network in ended:
                    with suppress(OperationRefused):  # the next attempt starts it
                        self._execute(stage)

    def _networks_of(self, update: Update[DhcpKey, DhcpValue]) -> set[NetworkId]:
        named = update.put.keys() | update.keep
        desired = self._cache.desired_networks() if update.complete else frozenset()
        garbage = {network for network in desired if NetworkKey(network) not in named}
        return _networks(update) | garbage

    def _record_desired(
        self, update: Update[DhcpKey, DhcpValue], outcome: Outcome[DhcpKey]
    ) -> None:
        """Cache the desired state, for ports and networks of later updates."""
        for key in outcome.in_force | outcome.waiting.keys():
            value = update.put.get(key)
            if isinstance(key, NetworkKey):
                network = None
                if isinstance(value, DhcpNetwork):
                    network, _ = restrict_network(value, option_problem)
                self._warnings.update(key.network, network)
                self._cache.set_desired_network(key.network, network)
            else:
                self._cache.set_desired_port(key.port, cast(DhcpPort | None, value))
        if update.complete:
            self._cache.forget_desired(update.put.keys() | update.keep)

    def _supervise(self, keys: Iterable[DhcpKey]) -> Iterator[tuple[DhcpKey, NetfwError]]:
        """Supervise the processes of *keys*; yield those for which that failed."""
        for key in keys:
            if not isinstance(key, NetworkKey):
                continue
            network = self._cache.desired_network(key.network)
            assert network is not None, "it was recorded"
            if self._sinks:
                self._device_monitor.watch(
                    key.network,
                    self._context.service_netns(key.network, network),
                    adopted=self._observer.take_adopted(key.network),
                )
            if key.network in self._watched:
                continue
            program = self._context.service_spec(key.network, network).program
            try:
                self._processes().start(process_key(key.network), program)
                self._health_checker.start(self._processes())
            except NetfwError as error:
                yield key, error
            else:
                self._watched.add(key.network)

    def _requeue_waiting(
        self,
        update: Update[DhcpKey, DhcpValue],
        outcome: Outcome[DhcpKey],
        touched: set[NetworkId],
    ) -> None:
        """Request another converge of ports that waited for a network that is served now, or, on
        those *touched*, for addresses that another port has released."""
        for key in update.drop:
            if isinstance(key, NetworkKey):
                self._watched.discard(key.network)
        served = _networks(outcome.in_force & update.put.keys())
        touched |= self._cache.desired_networks() if update.complete else set()
        for network in served | {id for id in touched if self._cache.files_of(id).exists}:
            woken = self._cache.pop_waiting(network) - update.put.keys()
            if woken:
                why = "their network is served now" if network in served else ADDRESSES_RELEASED
                self._notify(KeysChanged(why, woken))
        self._cache.add_waiting(key.port for key in outcome.waiting if isinstance(key, PortKey))

    def _supervised_networks(self) -> Iterator[tuple[NetworkId, DhcpNetwork]]:
        """Yield the networks whose process is supervised."""
        for id in tuple(self._watched):
            if (network := self._cache.desired_network(id)) is not None:
                yield id, network

    def _reset(self) -> None:
        """Drop caches and supervision: another driver may have had the directory meanwhile."""
        self._health_checker.stop()
        with self._lock:
            supervisor, self._supervisor = self._supervisor, None
            self._watched.clear()
        if supervisor is not None:
            supervisor.close()
        self._device_monitor.close()
        self._cache.invalidate_all()

    def _processes(self) -> Supervisor:
        with self._lock:
            if self._supervisor is None:
                directory = self._settings.confs / "processes"
                self._supervisor = Supervisor(
                    directory, self._handle_process_event, backoff=self._backoff
                )
            return self._supervisor

    def _handle_process_event(self, event: Event) -> None:
        """Translate an event of the supervisor, and publish it."""
        match event:
            case ProcessExited(reason=reason, key=key, on_death=on_death, tail=tail):
                text = f"{reason}: {tail}" if tail else reason
                network = NetworkKey(NetworkId(UUID(key.id)))
                self._notify(ProcessDied(text, [network], on_death is OnDeath.TELL))
            case RespawnFailed(reason=reason, key=key):
                self._notify(KeysChanged(reason, [NetworkKey(NetworkId(UUID(key.id)))]))

    def _notify(self, event: Event) -> None:
        for sink in tuple(self._sinks):
            sink(event)


def _networks(keys: Iterable[DhcpKey]) -> set[NetworkId]:
    return {key.network for key in keys if isinstance(key, NetworkKey)}
