"""LinuxRouterDriver: one namespace per router, with kernel routes and iptables."""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.events import Event, KeysChanged, Sink
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.router_values import (
    AgentGateway,
    FloatingIpNat,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterStatus,
)
from netfw.errors import (
    BackendUnavailable,
    Conflict,
    NetfwError,
    OperationRefused,
    PartlyInvalid,
)
from netfw.linux.fs.atomic_files import write_problem
from netfw.linux.fs.directory_lock import DirectoryLock
from netfw.linux.fs.permissions import exposure_problem
from netfw.linux.iptables import Backend, IptablesBinaries
from netfw.linux.process import why_missing
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.linux.service_netns.steps import MakeNamespace
from netfw.model.values.ids import PortId, RouterId
from netfw.plan import Outcome, Plan, Stage, Update
from netfw_drivers.linux_router.config.settings import OPTIONS, RouterSettings, read_settings
from netfw_drivers.linux_router.distributed.router_parts import nat_part, parts_in
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep
from netfw_drivers.linux_router.plan.daemons.optional_daemons import OPTIONAL, left_out_daemons
from netfw_drivers.linux_router.plan.daemons.radvd_plan import WithdrawPrefixes
from netfw_drivers.linux_router.plan.marks import GrantAllocator
from netfw_drivers.linux_router.plan.names import (
    AGENT_GATEWAY,
    CENTRAL_INTERFACE,
    CHAIN_OWNER,
    GATEWAY,
    HA,
    INTERFACE,
    CentralPart,
    OptionalRuleKey,
    PartId,
    netns_key,
    parse_netns,
    part_key,
    router_namespace,
)
from netfw_drivers.linux_router.plan.observed import ObservedRouters
from netfw_drivers.linux_router.plan.plan import RouterContext, plan_routers
from netfw_drivers.linux_router.plan.refused_routes import PossibleUpdate, left_out_routes
from netfw_drivers.linux_router.plan.refused_rules import left_out_rules
from netfw_drivers.linux_router.plan.unapplied_addresses import unapplied_errors
from netfw_drivers.linux_router.runtime.conntrackd_runner import ConntrackdRunner
from netfw_drivers.linux_router.runtime.daemon_runner import RouterProcesses
from netfw_drivers.linux_router.runtime.dhclient_runner import DhclientRunner
from netfw_drivers.linux_router.runtime.gateway_observer import GatewayObserver
from netfw_drivers.linux_router.runtime.keepalived_runner import KeepalivedRunner
from netfw_drivers.linux_router.runtime.observer import RouterObserver
from netfw_drivers.linux_router.runtime.prepared_floating_ips import RouteMover
from netfw_drivers.linux_router.runtime.radvd_runner import RadvdRunner, check_radvd_user, withdraw
from netfw_drivers.linux_router.runtime.router_monitor import RouterMonitor
from netfw_drivers.linux_router.runtime.status import read_status
from netfw_drivers.linux_router.runtime.waiting_floating_ips import WaitingFloatingIps

PREFIXES = (INTERFACE, GATEWAY, HA, CENTRAL_INTERFACE, AGENT_GATEWAY)
"""Prefixes of the names of devices."""
RouterUpdate = Update[RouterDriverKey, RouterDriverValue]


class LinuxRouterDriver(
    RouterDriver, Reconciler[RouterDriverKey, RouterDriverValue, ObservedRouters]
):
    """Runs each router in a namespace of its own, and each part of a distributed one.

    Namespaces, rules and the files of radvd are its only record: rules carry the ids of floating
    IPs and address scopes as comments.  Different routers may be converged in parallel.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = OPTIONS

    def __init__(self, interface: InterfaceDriver, settings: RouterSettings) -> None:
        self._settings = settings
        self._interface = interface
        chosen = settings.iptables
        self._backend = Backend.SYSTEM if chosen == "system" else Backend(f"-{chosen}")
        tool = IptablesBinaries(self._backend)
        self._context = RouterContext(settings=settings, device_name=interface.device_name)
        self._executor = RouterNetnsExecutor(interface, CHAIN_OWNER, prefixes=PREFIXES, tool=tool)
        self._processes = RouterProcesses(settings, self._notify)
        self._radvd = RadvdRunner(settings, self._processes)
        self._keepalived = KeepalivedRunner(settings, self._processes)
        self._conntrackd = ConntrackdRunner(settings, self._processes, self._keepalived.read_role)
        is_ha = self._keepalived.is_configured
        self._dhclient = DhclientRunner(settings, self._processes, is_ha, self._notify)
        self._daemons = (self._radvd, self._keepalived, self._conntrackd, self._dhclient)
        self._runners = {runner.SERVICE: runner for runner in self._daemons}
        self._gateways = GatewayObserver(self._executor, interface.device_name)
        self._observer = RouterObserver(
            self._executor, self._daemons, self._context, self._gateways
        )
        self._monitor = RouterMonitor(
            self._executor,
            interface,
            settings,
            (self._keepalived, self._conntrackd),
            self._notify,
            read_gateway=self._gateways.read,
            follow_role=self._dhclient.follow_role,
        )
        self._mover = RouteMover(self._executor, self._monitor)
        interface.watch(self._monitor.handle_event)
        self._directory_lock = DirectoryLock(
            settings.directory, "router_confs", on_acquired=self._reset, publish=self._notify
        )
        self._grants = GrantAllocator()
        self._sinks: tuple[Sink, ...] = ()
        self._conflicts: dict[object, NetfwError] = {}
        self._awaited = WaitingFloatingIps()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        settings = read_settings(options)
        check_radvd_user(settings.radvd_user)
        return cls(host.driver(InterfaceDriver), settings)

    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        return DriverInfo("linux", (HostCapability.PLAN, HostCapability.WATCH, *RouterCapability))

    def problems(self) -> tuple[str, ...]:
        suffix = self._backend.value
        restores = (f"{name}{suffix}-restore" for name in ("iptables", "ip6tables"))
        own = () if self._settings.conntrackd is None else ("conntrackd",)
        commands = ("radvd", "keepalived", *own, *restores)
        directory = write_problem(self._settings.directory)
        advice = f"{directory}: correct router_confs, or run as a user who may"
        exposed = exposure_problem(self._settings.directory)
        found = (*map(why_missing, commands), advice if directory else None, exposed)
        return tuple(problem for problem in found if problem is not None)

    def watch(self, sink: Sink) -> None:
        self._sinks = (*self._sinks, sink)

    def close(self) -> None:
        self._sinks = ()
        self._reset()
        self._directory_lock.release()

    def grant(self, request: GrantRequest) -> Grant:
        return self._grants.grant(request)

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        return router_namespace(CentralPart(router) if part is RouterPart.CENTRAL else router)

    def status(self, router: RouterId) -> RouterStatus:
        return read_status(router, self._executor, self._keepalived)

    def unwired_ports(self, router: RouterId) -> frozenset[PortId]:
        return self._monitor.unwired(router) | self._monitor.unwired(CentralPart(router))

    def present(self) -> frozenset[RouterDriverKey]:
        floating_ips = map(FloatingIpKey, self._observer.floating_ips())
        gateways = map(AgentGatewayKey, self._gateways.networks())
        return frozenset({*map(part_key, self._observer.routers()), *floating_ips, *gateways})

    def observe(self, scope: RouterUpdate | None) -> ObservedRouters:
        if scope is None:
            return self._observer.observe_all()
        return self._observer.observe(scope, mirrored=True)

    def observe_machine(self, update: RouterUpdate) -> ObservedRouters:
        """Read the routers of *update* alone: other threads use the others."""
        return self._observer.observe(update, mirrored=False)

    def plan(self, update: RouterUpdate, observed: ObservedRouters) -> Plan:
        return plan_routers(update, observed, self._context)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        self._directory_lock.acquire()
        new: set[RouterDriverKey] = set()
        for stage in plan.stages:
            new.update(_made_routers(stage))
            try:
                self._execute(stage)
            except OperationRefused as refusal:
                owners = {key for each in refusal.reasons for key in getattr(each, "owners", ())}
                if isinstance(refusal.__cause__, Conflict):
                    self._conflicts |= dict.fromkeys(owners, refusal.__cause__)
                if stage.backend not in OPTIONAL:  # without advertisements a router stays
                    self._remove(new & owners)
                raise
            checkpoint(stage)

    def converge(self, update: RouterUpdate) -> Outcome[RouterDriverKey]:
        """Converge as every reconciler does, then watch, supervise and announce what is done.

        :raises BackendLocked: another driver holds the lock on ``router_confs``; `FeedLost`
            follows.
        """
        self._directory_lock.acquire()
        concerned = self._observer.concerned(update)
        gateways = map(AgentGatewayKey, self._gateways.concerned(update))
        try:
            with self._monitor.paused([*concerned, *gateways], watch=bool(self._sinks)):
                self._mover.move(update)
                outcome = self._converge_possible(update, concerned)
        finally:
            self._gateways.release(part_key(part).router for part in concerned)
            for key in update:
                self._conflicts.pop(key, None)
        if waiting := self._awaited.update(update, outcome):
            self._notify(KeysChanged("the agent gateway that it waits for is here", waiting))
        return outcome

    def _converge_possible(
        self, update: RouterUpdate, concerned: Collection[PartId]
    ) -> Outcome[RouterDriverKey]:
        """Converge; as long as the kernel refuses a route of a user, again without it."""
        possible = PossibleUpdate(update=update)
        while True:
            outcome = self._converge(possible.update, concerned)
            rest = possible.without_refused(outcome.failed)
            if rest is possible:
                return possible.report(outcome)
            possible = rest

    def _converge(
        self, update: RouterUpdate, concerned: Iterable[PartId]
    ) -> Outcome[RouterDriverKey]:
        former = self._observer.locate(key for key in update if isinstance(key, FloatingIpKey))
        outcome = super().converge(update)
        refused = [k for k in outcome.failed if isinstance(k, FloatingIpKey | OptionalRuleKey)]
        self._remove(key for key in refused if key in update.put and key not in former)
        failed = left_out_rules(outcome.failed, update.put)
        failed |= left_out_daemons(failed, update.put)
        lost = {key: self._conflicts.get(key, error) for key, error in failed.items()}
        partly = (key for key, error in lost.items() if isinstance(error, PartlyInvalid))
        in_force = outcome.done | {*partly}
        self._record(update, in_force, refused)
        kept = in_force & update.put.keys()
        lost |= dict(self._supervise(part for part in concerned if part_key(part) in kept))
        lost |= {k: e for k, e in self._unapplied(update, concerned) if _is_in_force(lost.get(k))}
        lost |= dict(self._refused_routes(update, lost))
        waiting = {**outcome.waiting, **self._resume(update, concerned)}
        waiting = {key: why for key, why in waiting.items() if key not in lost}
        done = outcome.done - lost.keys() - waiting.keys()
        return evolve(outcome, done=done, failed=lost, waiting=waiting)

    def _execute(self, stage: Stage) -> None:
        if self._executor.handles(stage):
            self._executor.apply(stage)
            return
        for operation in stage.operations:
            step = operation.payload
            try:
                if isinstance(step, WithdrawPrefixes):
                    withdraw(step)
                else:
                    assert isinstance(step, DaemonStep), "no other kind is planned"
                    self._runners[step.backend].execute(step)
            except NetfwError as error:
                reasons = error.reasons.values() if isinstance(error, OperationRefused) else [error]
                reason = "; ".join(map(str, reasons))
                raise OperationRefused({operation: reason}) from error

    def _remove(self, keys: Iterable[RouterDriverKey]) -> None:
        """Remove what was made for keys that failed and were not there before."""
        drop: RouterUpdate = Update(drop=frozenset(keys))
        if drop:
            for stage in self.plan(drop, self.observe_machine(drop)).stages:
                self._execute(stage)

    def _record(
        self,
        update: RouterUpdate,
        in_force: Container[RouterDriverKey],
        refused: Collection[Hashable],
    ) -> None:
        for key in update:
            if isinstance(key, RouterKey) and key in in_force:
                states = parts_in(key, update)
                for part in (key.router, CentralPart(key.router)):
                    self._observer.record(part, states.get(part), refused)
            elif isinstance(key, AgentGatewayKey) and key in in_force:
                value = update.put.get(key)
                own = value if isinstance(value, AgentGateway) else None
                self._gateways.record(key.network, own)
        self._observer.prepared.record(update)
        if update.complete:
            self._observer.forget_except(update.put.keys() | update.keep)

    def _supervise(self, parts: Iterable[PartId]) -> Iterator[tuple[RouterDriverKey, NetfwError]]:
        """Supervise the processes of *parts*; yield the routers for which that failed."""
        for part in parts:
            try:
                for runner in self._daemons:
                    runner.supervise(part)
            except NetfwError as error:
                yield part_key(part), error

    def _unapplied(
        self, update: RouterUpdate, concerned: Iterable[PartId]
    ) -> Iterator[tuple[RouterDriverKey, NetfwError]]:
        """Yield the keys whose addresses keepalived has not applied yet."""
        for router in concerned:
            try:
                missing = self._keepalived.missing_addresses(router)
            except BackendUnavailable as error:
                if part_key(router) in update.put:
                    yield part_key(router), error
                continue
            yield from unapplied_errors(update, router, missing).items()

    def _refused_routes(
        self, update: RouterUpdate, lost: Mapping[RouterDriverKey, NetfwError]
    ) -> Iterator[tuple[RouterDriverKey, NetfwError]]:
        """Yield the highly available routers without a route of keepalived: the kernel refused it,
        or keepalived has not read it yet."""
        keys = (key for key in update.put if isinstance(key, RouterKey))
        for part, state in (item for key in keys for item in parts_in(key, update).items()):
            key = part_key(part)
            error = lost.get(key)
            if state.full is None or state.full.ha is None or not _is_in_force(error):
                continue
            routes = self._context.desired(part, state).routes().routes.values()
            try:
                refused = self._keepalived.refused_routes(part, routes)
            except BackendUnavailable as unavailable:
                yield key, unavailable
                continue
            if left_out := left_out_routes(state, refused):
                others = error.problems if isinstance(error, PartlyInvalid) else {}
                yield key, PartlyInvalid({**others, **left_out})

    def _resume(
        self, update: RouterUpdate, concerned: Iterable[PartId]
    ) -> dict[RouterDriverKey, str]:
        """Watch and announce the routers; return what waits for the switch or for a daemon."""
        waiting: dict[RouterDriverKey, str] = {}
        by_router: dict[PartId, set[RouterDriverKey]] = {}
        for key, value in update.put.items():
            if isinstance(value, FloatingIpNat):
                by_router.setdefault(nat_part(value), set()).add(key)
        for network in self._gateways.concerned(update):
            gateway = self._gateways.converged(network)
            if gateway is None:
                self._monitor.forget(AgentGatewayKey(network))
            else:
                self._monitor.resume(gateway, watch=bool(self._sinks))
        for router in concerned:
            converged = self._observer.converged(router)
            if converged is None:
                self._monitor.forget(router)
                continue
            resumed = self._monitor.resume(converged, watch=bool(self._sinks))
            keys = {part_key(router)} & update.put.keys()
            waiting |= resumed.waiting(keys, by_router.get(router, ()))
        return waiting

    def _reset(self) -> None:
        """Drop caches and supervision: another driver may have changed routers meanwhile."""
        self._monitor.close()
        self._processes.close()
        for runner in self._daemons:
            runner.forget()
        self._observer.reset()
        self._gateways.reset()
        self._awaited.clear()

    def _notify(self, event: Event) -> None:
        for sink in self._sinks:
            sink(event)


def _is_in_force(error: NetfwError | None) -> bool:
    return error is None or isinstance(error, PartlyInvalid)


def _made_routers(stage: Stage) -> Iterator[RouterDriverKey]:
    for operation in stage.operations:
        if isinstance(operation.payload, MakeNamespace):
            made = parse_netns(operation.payload.netns)
            assert made is not None, "no other namespaces are planned"
            yield netns_key(made)
