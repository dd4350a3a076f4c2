"""Router monitor: watches converged routers, and announces their addresses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from attrs import evolve

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey
from netfw.drivers.values.router_values import RoleChanged, RouterDriverKey
from netfw.errors import BackendError, BackendUnavailable, NetfwError
from netfw.linux.router_netns import (
    NetnsPort,
    RouterNetnsExecutor,
)
from netfw.linux.service_netns import DriftMonitor
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.router import HaRole
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink
from netfw_drivers.linux_router.plan.ha_role import ROLE_REASONS
from netfw_drivers.linux_router.plan.names import (
    HA,
    NetnsId,
    PartId,
    netns_key,
    netns_name,
    parse_netns,
    part_key,
)
from netfw_drivers.linux_router.runtime.announcements import (
    AnnouncedAddress,
    AnnouncedFloatingIps,
    Announcements,
)
from netfw_drivers.linux_router.runtime.converged_routers import (
    ConvergedPlanner,
    ConvergedRouter,
    ReadGateway,
    RouterWaitReasons,
    no_gateway,
)
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner
from netfw_drivers.linux_router.runtime.keepalived_runner import KeepalivedRunner
from netfw_drivers.linux_router.runtime.wiring_cache import WiringCache

LOG = logging.getLogger(__name__)

NOT_WIRED = "the switch has not admitted the gateway of its router yet"


class RouterMonitor:
    """Reports routers that other programs changed, and ports that the switch admits or rejects.

    Sysctls and rules of iptables-legacy, whose changes the kernel does not announce, are not
    watched.

    :param notify: called with events, from any thread.
    :param follow_role: starts or ends what only the active instance of a router has.
    """

    def __init__(
        self,
        executor: RouterNetnsExecutor,
        interface: InterfaceDriver,
        settings: RouterSettings,
        election: tuple[KeepalivedRunner, DaemonRunner],
        notify: Callable[[Event], None],
        *,
        read_gateway: ReadGateway = no_gateway,
        follow_role: Callable[[PartId, HaRole], None] = lambda part, role: None,
    ) -> None:
        self._notify, self._follow_role = notify, follow_role
        self._keepalived, self._conntrackd = election
        watched = HostCapability.WATCH in interface.describe().capabilities
        self._wiring = WiringCache(executor.device, self._handle_wiring, watched=watched)
        self._announcements = Announcements(settings)
        planner = ConvergedPlanner(executor, read_gateway, self._record_role, self._check_links)
        self._drift = DriftMonitor(planner, self._handle_drift)
        self._lock = threading.Lock()
        self._routers: dict[NetnsId, ConvergedRouter] = {}
        self._roles: dict[PartId, HaRole] = {}
        """The roles that were reported last."""
        self._role_locks: dict[PartId, threading.RLock] = {}
        """Held from where a role is read until it is reported, so that no older one follows."""
        self._owners: dict[PortId, NetnsId] = {}
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
                self._drift.recheck(netns_name(router))

    @contextmanager
    def paused(self, routers: Iterable[NetnsId], *, watch: bool) -> Iterator[None]:
        """Stop watching *routers* while they change, until `resume`, which may *watch* them.

        If that ends in an error, they are watched again as they were.
        """
        with self._lock:
            self._paused += 1
        try:
            with self._drift.held(map(netns_name, routers), watch=watch) as former:
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

    def resume(self, router: ConvergedRouter, *, watch: bool) -> RouterWaitReasons:
        """Announce the addresses of a router, and *watch* it; return what it waits for.

        When the switch admits or rejects a port, an event follows.

        :raises BackendUnavailable: the machine has no thread left to announce them.
        :raises BackendError: the switch does not say whether it has admitted the port on the HA
            network; keepalived is not started.
        """
        with self._lock:
            gone = self._ports_of(router.id) - {port.port for port in router.ports}
            former = self._routers.get(router.id)
            self._routers[router.id] = router
            self._owners |= {port.port: router.id for port in router.ports}
        self._forget_ports(gone)
        unwired = frozenset(
            port for port in self._ports_of(router.id) if self._is_unwired(self._wiring.watch, port)
        )
        old, new = (None if each is None else each.link for each in (former, router))
        if old is not None and (new is None or new.network != old.network):
            self._announcements.withdraw(old.netns, router.netns)
        self._announce(router, unwired)
        unelected = ""
        if router.is_ha and not router.is_elected and self._is_admitted(_ha_ports(router)):
            router, unelected = self._elect(router)
        if watch and router.whole is not None:
            self._watch(router)
        if watch and router.is_ha and not isinstance(router.id, AgentGatewayKey):
            self._read_role(router.id)
        is_unwired = router.gateway is not None and router.gateway.port in unwired
        if router.link is not None:
            is_unwired = self._is_gateway_unwired(router.link)
        return RouterWaitReasons(election=unelected, gateway=NOT_WIRED if is_unwired else "")

    def converged(self, router: PartId) -> ConvergedRouter | None:
        """Return a router as it was converged last; None: it was not, or it is gone."""
        with self._lock:
            return self._routers.get(router)

    def replace(self, former: ConvergedRouter, router: ConvergedRouter) -> None:
        """Have *router* in the place of *former*, unless that was converged meanwhile; announce it.

        :raises BackendUnavailable: the machine has no thread left to announce it.
        """
        with self._lock:
            if self._routers.get(router.id) is not former:
                return
            self._routers[router.id] = router
        self._announce(router, self.unwired(router.id))

    def unwired(self, router: NetnsId) -> frozenset[PortId]:
        """Return the ports of a router that the switch has not admitted."""
        with self._lock:
            ports = self._ports_of(router)
        return frozenset(port for port in ports if self._is_unwired(self._wiring.is_unwired, port))

    def forget(self, router: NetnsId) -> None:
        """Forget a router or an agent gateway that is gone."""
        with self._lock:
            ports = self._ports_of(router)
            former = self._routers.pop(router, None)
            if not isinstance(router, AgentGatewayKey):
                self._roles.pop(router, None)
                self._role_locks.pop(router, None)
        self._forget_ports(ports)
        self._announcements.forget(netns_name(router))
        if former is not None and former.link is not None:
            self._announcements.withdraw(former.link.netns, former.netns)

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
        if router.link is not None and not self._is_gateway_unwired(router.link):
            self._announce_by(router.link, router)

    def _announce_by(self, link: GatewayLink, router: ConvergedRouter) -> None:
        """Announce the floating IPs of a local part by the agent gateway."""
        port = link.port
        if port is None or port.mac is None:
            return
        floating = AnnouncedFloatingIps(port.name, port.mac, router.index, router.prepared)
        with self._lock:
            if self._routers.get(router.id) is router:
                self._announcements.update(link.netns, (), floating, owner=router.netns)

    def _is_gateway_unwired(self, link: GatewayLink) -> bool:
        """Return whether the switch has not admitted the agent gateway of a link."""
        with self._lock:
            ports = self._ports_of(AgentGatewayKey(link.network))
        return any(self._is_unwired(self._wiring.is_unwired, port) for port in ports)

    def _linked(self, network: NetworkId) -> list[ConvergedRouter]:
        with self._lock:
            routers = [*self._routers.values()]
        return [each for each in routers if each.link and each.link.network == network]

    def _check_links(self, network: NetworkId, found: ObservedNetns) -> None:
        """Compare the routers whose links are not as they were converged."""
        for router in self._linked(network):
            if router.link_differs(found):
                self._drift.recheck(router.netns)

    def _elect(self, router: ConvergedRouter) -> tuple[ConvergedRouter, str]:
        """Start the daemons of a router whose port on the HA network was admitted.

        Return it, and why one of them cannot be started.  Empty: they run."""
        part, former = router.id, router
        assert not isinstance(part, AgentGatewayKey), "it is highly available"
        try:
            self._keepalived.start_configured(part)
            router = evolve(former, is_elected=True)
            with self._lock:
                if self._routers.get(part) is former:
                    self._routers[part] = router
            self._conntrackd.start_configured(part)
        except NetfwError as error:
            LOG.warning("router %s: %s", part, error)  # its convergence tries again
            return router, str(error)
        return router, ""

    def _read_role(self, router: PartId) -> None:
        with self._role_lock(router):
            try:
                role = self._keepalived.read_role(router)
            except NetfwError as error:
                LOG.info("router %s: its role cannot be read now: %s", router, error)
                return
            if role is not None:
                self._record_role(router, role)

    def _role_lock(self, router: PartId) -> threading.RLock:
        with self._lock:
            return self._role_locks.setdefault(router, threading.RLock())

    def _record_role(self, router: PartId, role: HaRole) -> None:
        """Follow and report a role.

        The thread of the drift monitor reads it before: after a later change, it does so again.
        """
        with self._role_lock(router):
            with self._lock:
                if router not in self._routers or self._roles.get(router) is role:
                    return
                self._roles[router] = role
            try:
                self._follow_role(router, role)
            except NetfwError as error:
                LOG.warning("router %s: %s", router, error)
                self._notify(KeysChanged("its daemons do not follow its role", [part_key(router)]))
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
                router, _ = self._elect(router)
        except BackendError as error:
            LOG.warning("router %s: %s", router.id, error)  # its convergence tries again
        try:
            self._announce(router, self.unwired(router.id))
        except BackendUnavailable as error:
            LOG.warning("router %s: %s", router.id, error)  # its convergence tries again
        is_gateway = router.gateway is not None and router.gateway.port == port
        is_on_path = is_gateway or router.link is not None  # of its floating IPs
        keys = _keys(router) if is_on_path else (netns_key(router.id),)
        if isinstance(router.id, AgentGatewayKey):
            keys = (*keys, *self._handle_gateway_wiring(router.id.network))
        self._notify(KeysChanged("the switch has admitted or rejected a port of this router", keys))

    def _handle_gateway_wiring(self, network: NetworkId) -> list[RouterDriverKey]:
        """Announce the floating IPs by an agent gateway; return the keys of their routers."""
        keys: list[RouterDriverKey] = []
        for router in self._linked(network):
            keys += _keys(router)
            try:
                self._announce(router, self.unwired(router.id))
            except BackendUnavailable as error:
                LOG.warning("%s: %s", router.netns, error)  # its convergence tries again
        return keys

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

    def _ports_of(self, router: NetnsId) -> frozenset[PortId]:
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
        router = parse_netns(netns)
        if router is not None:
            known = self._routers.get(router)
            keys = (netns_key(router),) if known is None else _keys(known)
            self._notify(KeysChanged(f"another program has changed {netns}", keys))


def _keys(router: ConvergedRouter) -> tuple[RouterDriverKey, ...]:
    return (netns_key(router.id), *map(FloatingIpKey, router.index.translations))


def _ha_ports(router: ConvergedRouter) -> frozenset[PortId]:
    return frozenset(port.port for port in router.ports if port.device.startswith(HA))


def _addresses(port: NetnsPort) -> Iterator[AnnouncedAddress]:
    for interface in port.addresses:
        if not interface.is_link_local:
            yield AnnouncedAddress(port.device, port.mac, interface.ip)
    for address in port.proxied:
        yield AnnouncedAddress(port.device, port.mac, address)
