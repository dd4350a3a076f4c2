"""Router monitor: watches converged routers, and announces their addresses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

from attrs import frozen

from netfw.drivers.events import Event, FeedLost, KeysChanged
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.keys import FloatingIpKey, RouterKey
from netfw.drivers.router_values import RouterDriverKey
from netfw.errors import BackendError, BackendUnavailable, NetfwError
from netfw.linux.router_netns import NetnsPort, RouterNetns, RouterNetnsExecutor
from netfw.linux.service_netns import DriftMonitor
from netfw.model.ids import FloatingIpId, PortId, RouterId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.names import GATEWAY, parse_namespace, router_namespace
from netfw_drivers.linux_router.runtime.announcements import AnnouncedAddress, Announcements
from netfw_drivers.linux_router.runtime.wiring import WiringCache

LOG = logging.getLogger(__name__)

NOT_WIRED = "the switch has not admitted the gateway of its router yet"


@frozen(kw_only=True)
class ConvergedRouter:
    """A router as it is after a converge."""

    id: RouterId
    desired: RouterNetns | None
    """Its namespace; None: it was not converged as a whole since the driver was made."""
    gateway: NetnsPort | None
    """Its gateway, with the addresses of floating IPs."""
    floating_ips: frozenset[FloatingIpId] = frozenset()


class RouterMonitor:
    """Reports routers that other programs changed, and ports that the switch admits.

    Sysctls and rules of iptables-legacy, whose changes the kernel does not announce, are not
    watched.

    :param notify: called with events, from any thread.
    """

    def __init__(
        self,
        executor: RouterNetnsExecutor,
        interface: InterfaceDriver,
        settings: RouterSettings,
        notify: Callable[[Event], None],
    ) -> None:
        self._notify = notify
        watched = HostCapability.WATCH in interface.describe().capabilities
        self._wiring = WiringCache(executor.device, self._handle_wiring, watched=watched)
        self._announcements = Announcements(settings)
        self._drift = DriftMonitor(executor, self._handle_drift)
        self._lock = threading.Lock()
        self._routers: dict[RouterId, ConvergedRouter] = {}

    def handle_event(self, event: Event) -> None:
        """Handle an event of the interface driver."""
        self._wiring.handle_event(event)
        if isinstance(event, FeedLost):
            self._notify(event)

    @contextmanager
    def paused(self, routers: Iterable[RouterId]) -> Iterator[None]:
        """Stop watching *routers* while they change, until `resume`.

        If that ends in an error, they are watched again as they were.
        """
        unwatched = [self._drift.unwatch(router_namespace(router)) for router in routers]
        try:
            yield
        except BaseException:
            for desired in unwatched:
                if desired is not None:
                    self._watch(desired)
            raise

    def resume(
        self, router: ConvergedRouter, waiting: frozenset[RouterDriverKey], *, watch: bool
    ) -> bool:
        """Announce the addresses of a router, and *watch* it; return whether it can take traffic.

        If the switch has not admitted the gateway yet, it cannot, and an event follows for
        *waiting* once it has.

        :raises BackendUnavailable: the machine has no thread left to announce them.
        """
        with self._lock:
            self._routers[router.id] = router
        wired = self._announce(router, waiting)
        if watch and router.desired is not None:
            self._watch(router.desired)
        return router.gateway is None or router.gateway in wired

    def forget(self, router: RouterId) -> None:
        """Forget a router that is gone."""
        with self._lock:
            known = self._routers.pop(router, None)
        for port in _ports(known) if known is not None else ():
            self._wiring.forget(port.port)
        self._announcements.forget(router_namespace(router))

    def close(self) -> None:
        """Stop watching and announcing.  `resume` starts both anew."""
        with self._lock:
            self._routers.clear()
        self._wiring.close()
        self._drift.close()
        self._announcements.close()

    def _announce(
        self, router: ConvergedRouter, waiting: frozenset[RouterDriverKey] = frozenset()
    ) -> list[NetnsPort]:
        """Announce the addresses of the ports that the switch has admitted; return those ports."""
        own: frozenset[RouterDriverKey] = frozenset({RouterKey(router.id)})
        wired = [
            port
            for port in _ports(router)
            if not self._is_unwired(port.port, own | waiting if _is_gateway(port) else own)
        ]
        addresses = (each for port in wired for each in _addresses(port))
        self._announcements.update(router_namespace(router.id), addresses)
        return wired

    def _handle_wiring(self, keys: frozenset[Hashable]) -> None:
        """Announce the routers, whether or not anything converges them again."""
        with self._lock:
            named = [each.router for each in keys if isinstance(each, RouterKey)]
            routers = [self._routers[id] for id in named if id in self._routers]
        for router in routers:
            try:
                self._announce(router)
            except BackendUnavailable as error:
                LOG.warning("router %s: %s", router.id, error)  # its convergence tries again
        self._notify(KeysChanged("the switch has admitted ports of these routers", keys))

    def _is_unwired(self, port: PortId, keys: frozenset[RouterDriverKey]) -> bool:
        try:
            return self._wiring.is_unwired(port, keys)
        except BackendError as error:
            LOG.info(
                "router: port %s: the switch does not say whether it is wired: %s", port, error
            )
            return False

    def _watch(self, desired: RouterNetns) -> None:
        try:
            self._drift.watch(desired)
        except NetfwError as error:
            LOG.warning("router: %s is not watched: %s", desired.netns, error)

    def _handle_drift(self, netns: str) -> None:
        router = parse_namespace(netns)
        if router is not None:
            known = self._routers.get(router)
            floating_ips = map(FloatingIpKey, known.floating_ips if known is not None else ())
            keys = [RouterKey(router), *floating_ips]
            self._notify(KeysChanged(f"another program has changed {netns}", keys))


def _ports(router: ConvergedRouter) -> Iterator[NetnsPort]:
    if router.desired is not None:
        yield from router.desired.ports
    elif router.gateway is not None:
        yield router.gateway


def _is_gateway(port: NetnsPort) -> bool:
    return port.device.startswith(GATEWAY)


def _addresses(port: NetnsPort) -> Iterator[AnnouncedAddress]:
    for interface in port.addresses:
        if not interface.is_link_local:
            yield AnnouncedAddress(port.device, port.mac, interface.ip)
