"""Router monitor: watches converged routers, and announces their addresses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from uuid import UUID

from attrs import evolve, field, frozen

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import RoleChanged, RouterDriverKey
from netfw.errors import BackendError, BackendUnavailable, NetfwError
from netfw.linux.router_netns import (
    NetnsPort,
    RouterNetns,
    RouterNetnsExecutor,
    plan_router_netns,
)
from netfw.linux.service_netns import DriftMonitor
from netfw.model.ids import PortId
from netfw.model.router import HaRole
from netfw.plan import Stage
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.ha_role import ROLE_REASONS, decide_role
from netfw_drivers.linux_router.plan.keepalived_plan import watched_netns
from netfw_drivers.linux_router.plan.names import (
    GATEWAY,
    HA,
    PartId,
    parse_namespace,
    part_key,
    router_namespace,
)
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex
from netfw_drivers.linux_router.runtime.announcements import (
    AnnouncedAddress,
    AnnouncedFloatingIps,
    Announcements,
)
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner
from netfw_drivers.linux_router.runtime.keepalived_runner import KeepalivedRunner
from netfw_drivers.linux_router.runtime.wiring import WiringCache

LOG = logging.getLogger(__name__)

NOT_WIRED = "the switch has not admitted the gateway of its router yet"


@frozen(kw_only=True, eq=False, slots=False)
class ConvergedRouter:
    """A router as it is after a converge."""

    id: PartId
    ports: tuple[NetnsPort, ...] = ()
    """Its ports, without the addresses of floating IPs; the gateway alone if it was not converged
    as a whole since the driver was made."""
    index: TranslationIndex = field(factory=TranslationIndex)
    """Its floating IPs."""
    whole: Callable[[], RouterNetns] | None = None
    """Makes its namespace; None: it was not converged as a whole since the driver was made."""
    is_ha: bool = False
    """Whether it is highly available: keepalived announces the addresses of the active instance."""
    is_elected: bool = False
    """Whether its keepalived runs."""

    @property
    def netns(self) -> str:
        return router_namespace(self.id)

    @property
    def gateway(self) -> NetnsPort | None:
        return next((port for port in self.ports if port.device.startswith(GATEWAY)), None)

    @cached_property
    def desired(self) -> RouterNetns | None:
        """Its namespace.  Made when it is first compared: that costs all its floating IPs."""
        return None if self.whole is None else self.whole()


@frozen
class ConvergedPlanner:
    """Compares converged routers with their namespaces.

    :param on_role: called with the role of a highly available router.
    """

    executor: RouterNetnsExecutor
    on_role: Callable[[PartId, HaRole], None]

    def plan(self, wanted: ConvergedRouter, /) -> tuple[Stage, ...]:
        """Observe the namespace of a router, and plan what makes it as it was converged."""
        desired = wanted.desired
        if desired is None:
            return ()
        if not wanted.is_ha:
            return self.executor.plan(desired)
        found = self.executor.observe(desired.netns, desired, mirrored=True)
        running = wanted.is_elected
        addresses = (each.address for each in found.addresses)
        role = decide_role(found.links, addresses, running=running)
        if role is not None:
            self.on_role(wanted.id, role)
        watched = watched_netns(desired, role, running=running)
        return plan_router_netns(desired.netns, watched, found, self.executor.chain_owner)


class RouterMonitor:
    """Reports routers that other programs changed, and ports that the switch admits or rejects.

    Sysctls and rules of iptables-legacy, whose changes the kernel does not announce, are not
    watched.

    :param notify: called with events, from any thread.
    """

    def __init__(
        self,
        executor: RouterNetnsExecutor,
        interface: InterfaceDriver,
        settings: RouterSettings,
        election: tuple[KeepalivedRunner, DaemonRunner],
        notify: Callable[[Event], None],
    ) -> None:
        self._notify = notify
        self._keepalived, self._conntrackd = election
        watched = HostCapability.WATCH in interface.describe().capabilities
        self._wiring = WiringCache(executor.device, self._handle_wiring, watched=watched)
        self._announcements = Announcements(settings)
        planner = ConvergedPlanner(executor, self._record_role)
        self._drift = DriftMonitor(planner, self._handle_drift)
        self._lock = threading.Lock()
        self._routers: dict[PartId, ConvergedRouter] = {}
        self._roles: dict[PartId, HaRole] = {}
        """The roles that were reported last."""
        self._owners: dict[PortId, PartId] = {}
        self._paused = 0
        self._changed_ports: set[PortId] = set()
        """Ports of which there were events while a router was paused."""

    def handle_event(self, event: Event) -> None:
        """Handle an event of the interface driver: its ports may need to be plugged again."""
        self._wiring.handle_event(event)
        if isinstance(event, FeedLost):
            self._notify(event)
        elif isinstance(event, KeysChanged):
            ports = {PortId(key) for key in event.keys if isinstance(key, UUID)}
            with self._lock:
                self._changed_ports |= ports if self._paused else set()
                owners = {self._owners[port] for port in ports & self._owners.keys()}
            for router in owners:
                self._drift.recheck(router_namespace(router))

    @contextmanager
    def paused(self, routers: Iterable[PartId], *, watch: bool) -> Iterator[None]:
        """Stop watching *routers* while they change, until `resume`, which may *watch* them.

        If that ends in an error, they are watched again as they were.
        """
        with self._lock:
            self._paused += 1
        try:
            with self._drift.held(map(router_namespace, routers), watch=watch) as former:
                try:
                    yield
                except BaseException:
                    for router in former:
                        self._watch(router)
                    raise
        finally:
            with self._lock:
                self._paused -= 1
                if not self._paused:
                    self._changed_ports.clear()

    def resume(self, router: ConvergedRouter, *, watch: bool) -> bool:
        """Announce the addresses of a router, and *watch* it; return whether its gateway is wired.

        When the switch admits or rejects a port, an event follows.

        :raises BackendUnavailable: the machine has no thread left to announce them.
        :raises BackendError: the switch does not say whether it has admitted the port on the HA
            network; keepalived is not started.
        """
        with self._lock:
            gone = self._ports_of(router.id) - {port.port for port in router.ports}
            self._routers[router.id] = router
            self._owners |= {port.port: router.id for port in router.ports}
        self._forget_ports(gone)
        unwired = frozenset(
            port for port in self._ports_of(router.id) if self._is_unwired(self._wiring.watch, port)
        )
        self._announce(router, unwired)
        if router.is_ha and not router.is_elected and self._is_admitted(_ha_ports(router)):
            router = self._elect(router)
        if watch and router.whole is not None:
            self._watch(router)
        if watch and router.is_ha:
            self._read_role(router.id)
        return router.gateway is None or router.gateway.port not in unwired

    def unwired(self, router: PartId) -> frozenset[PortId]:
        """Return the ports of a router that the switch has not admitted."""
        with self._lock:
            ports = self._ports_of(router)
        return frozenset(port for port in ports if self._is_unwired(self._wiring.is_unwired, port))

    def forget(self, router: PartId) -> None:
        """Forget a router that is gone."""
        with self._lock:
            ports = self._ports_of(router)
            self._routers.pop(router, None)
            self._roles.pop(router, None)
        self._forget_ports(ports)
        self._announcements.forget(router_namespace(router))

    def close(self) -> None:
        """Stop watching and announcing.  `resume` starts both anew."""
        with self._lock:
            self._routers.clear()
            self._roles.clear()
            self._owners.clear()
        self._wiring.close()
        self._drift.close()
        self._announcements.close()

    def _announce(self, router: ConvergedRouter, unwired: frozenset[PortId]) -> None:
        """Announce the addresses of the ports that the switch has admitted.

        A router that was converged or removed meanwhile has other addresses.
        """
        if router.is_ha:
            self._announcements.forget(router.netns)
            return
        wired = (port for port in router.ports if port.port not in unwired)
        addresses = (each for port in wired for each in _addresses(port))
        gateway = router.gateway
        floating = None
        if gateway is not None and gateway.port not in unwired:
            floating = AnnouncedFloatingIps(gateway.device, gateway.mac, router.index)
        with self._lock:
            if self._routers.get(router.id) is router:
                self._announcements.update(router.netns, addresses, floating)

    def _elect(self, router: ConvergedRouter) -> ConvergedRouter:
        """Start the daemons of a router whose port on the HA network was admitted."""
        if not _start(self._keepalived, router.id):
            return router
        _start(self._conntrackd, router.id)
        elected = evolve(router, is_elected=True)
        with self._lock:
            if self._routers.get(router.id) is router:
                self._routers[router.id] = elected
        return elected

    def _read_role(self, router: PartId) -> None:
        try:
            role = self._keepalived.read_role(router)
        except NetfwError as error:
            LOG.info("router %s: its role cannot be read now: %s", router, error)
            return
        if role is not None:
            self._record_role(router, role)

    def _record_role(self, router: PartId, role: HaRole) -> None:
        with self._lock:
            if router not in self._routers or self._roles.get(router) is role:
                return
            self._roles[router] = role
        self._notify(RoleChanged(ROLE_REASONS[role], part_key(router).router, role))

    def _handle_wiring(self, port: PortId) -> None:
        """Announce the router of a port, whether or not anything converges it again."""
        with self._lock:
            owner = self._owners.get(port)
            router = None if owner is None else self._routers.get(owner)
        if router is None:
            return
        try:
            if port in _ha_ports(router) and self._is_admitted([port]):
                router = self._elect(router)
        except BackendError as error:
            LOG.warning("router %s: %s", router.id, error)  # its convergence tries again
        try:
            self._announce(router, self.unwired(router.id))
        except BackendUnavailable as error:
            LOG.warning("router %s: %s", router.id, error)  # its convergence tries again
        is_gateway = router.gateway is not None and router.gateway.port == port
        keys = _keys(router) if is_gateway else (part_key(router.id),)
        self._notify(KeysChanged("the switch has admitted or rejected a port of this router", keys))

    def _is_admitted(self, ports: Collection[PortId]) -> bool:
        """Return whether the switch has admitted all *ports*, and there are some.

        A router whose state is not known yet has none.
        """
        return bool(ports) and not any(map(self._wiring.is_unwired, ports))

    def _is_unwired(self, is_unwired: Callable[[PortId], bool], port: PortId) -> bool:
        try:
            return is_unwired(port)
        except BackendError as error:
            LOG.info(
                "router: port %s: the switch does not say whether it is wired: %s", port, error
            )
            return False

    def _ports_of(self, router: PartId) -> frozenset[PortId]:
        known = self._routers.get(router)
        return frozenset(port.port for port in known.ports) if known else frozenset()

    def _forget_ports(self, ports: Iterable[PortId]) -> None:
        for port in ports:
            with self._lock:
                self._owners.pop(port, None)
            self._wiring.forget(port)

    def _watch(self, router: ConvergedRouter) -> None:
        try:
            self._drift.watch(router)
        except NetfwError as error:
            LOG.warning("router: %s is not watched: %s", router.netns, error)
        with self._lock:
            changed = any(port.port in self._changed_ports for port in router.ports)
        if changed:
            self._drift.recheck(router.netns)

    def _handle_drift(self, netns: str) -> None:
        router = parse_namespace(netns)
        if router is not None:
            known = self._routers.get(router)
            keys = (part_key(router),) if known is None else _keys(known)
            self._notify(KeysChanged(f"another program has changed {netns}", keys))


def _start(runner: DaemonRunner, router: PartId) -> bool:
    """Start the daemon of a router, if it has one; return whether nothing failed."""
    try:
        runner.start_configured(router)
    except NetfwError as error:
        LOG.warning("router %s: %s", router, error)  # its convergence tries again
        return False
    return True


def _keys(router: ConvergedRouter) -> tuple[RouterDriverKey, ...]:
    return (part_key(router.id), *map(FloatingIpKey, router.index.translations))


def _ha_ports(router: ConvergedRouter) -> frozenset[PortId]:
    return frozenset(port.port for port in router.ports if port.device.startswith(HA))


def _addresses(port: NetnsPort) -> Iterator[AnnouncedAddress]:
    for interface in port.addresses:
        if not interface.is_link_local:
            yield AnnouncedAddress(port.device, port.mac, interface.ip)
