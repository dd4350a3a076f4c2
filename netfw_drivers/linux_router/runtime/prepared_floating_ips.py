"""Floating IPs at local parts that are prepared: they become active, or the contrary, by a route.

The route in the agent gateway is added or removed before everything else of an update is compared,
which takes many times as long: meanwhile no host would answer, or two of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from attrs import evolve, frozen

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterPart
from netfw.errors import NetfwError
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.model.values.ids import FloatingIpId, RouterId
from netfw.plan import Stage
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink
from netfw_drivers.linux_router.plan.floating_ip_rules import Translation, Translations
from netfw_drivers.linux_router.plan.floating_ips import RouterUpdate
from netfw_drivers.linux_router.runtime.converged_routers import ConvergedRouter
from netfw_drivers.linux_router.runtime.router_monitor import RouterMonitor

LOG = logging.getLogger(__name__)
Nats = Mapping[FloatingIpId, FloatingIpNat]


class PreparedFloatingIps:
    """Which floating IPs are prepared, by the updates since the driver started.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prepared: dict[FloatingIpId, bool] = {}

    def record(self, update: RouterUpdate) -> None:
        """Record the floating IPs of an update."""
        kept = update.put.keys() | update.keep
        with self._lock:
            for key in update:
                if isinstance(key, FloatingIpKey):
                    value = update.put.get(key)
                    self._prepared.pop(key.floating_ip, None)
                    if isinstance(value, FloatingIpNat) and value.part is RouterPart.LOCAL:
                        self._prepared[key.floating_ip] = value.prepared
            if update.complete:
                known = self._prepared.items()
                self._prepared = {id: each for id, each in known if FloatingIpKey(id) in kept}

    def among(self, served: Translations, link: GatewayLink | None) -> frozenset[FloatingIpId]:
        """Return those of *served* that are prepared; of unknown ones, those without a route."""
        if link is None:
            return frozenset()
        lacking = frozenset(link.without_route(served) if link.is_complete else ())
        with self._lock:
            known = {id: self._prepared.get(id, id in lacking) for id in served}
        return frozenset(id for id, prepared in known.items() if prepared)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._prepared.clear()


@frozen(kw_only=True)
class RouteMove:
    """The changes of routes that make floating IPs active or prepared."""

    router: ConvergedRouter
    """The router afterwards."""
    stages: tuple[Stage, ...]


def plan_route_move(router: ConvergedRouter, nats: Nats) -> RouteMove | None:
    """Plan the routes to floating IPs of *router*, as it was converged; None: none changes.  Pure.

    Floating IPs without rules are left to the convergence.
    """
    link, served = router.link, router.index.translations
    moved = {
        id: nat.prepared
        for id, nat in nats.items()
        if served.get(id) == Translation(nat.floating_address, nat.fixed_address)
        and nat.prepared != (id in router.prepared)
    }
    if link is None or not link.is_complete or not moved:
        return None
    prepared = router.prepared - moved.keys() | {id for id, each in moved.items() if each}
    stages = link.plan_all(served, prepared)
    return RouteMove(router=evolve(router, prepared=prepared), stages=stages)


@frozen
class RouteMover:
    """Moves the routes of an update at once, and announces floating IPs that become active."""

    executor: RouterNetnsExecutor
    monitor: RouterMonitor

    def move(self, update: RouterUpdate) -> None:
        """Add and remove routes; the convergence that follows repairs what fails."""
        for id, own in _local_nats(update).items():
            router = self.monitor.converged(id)
            planned = None if router is None else plan_route_move(router, own)
            if router is None or planned is None:
                continue
            try:
                for stage in planned.stages:
                    self.executor.apply(stage)
                self.monitor.replace(router, planned.router)
            except NetfwError as error:
                LOG.info("router %s: routes of floating IPs: %s", id, error)


def _local_nats(update: RouterUpdate) -> dict[RouterId, dict[FloatingIpId, FloatingIpNat]]:
    """Return the floating IPs at local parts, by router."""
    nats: dict[RouterId, dict[FloatingIpId, FloatingIpNat]] = {}
    for key, value in update.put.items():
        if not isinstance(key, FloatingIpKey) or not isinstance(value, FloatingIpNat):
            continue
        if value.part is RouterPart.LOCAL:
            nats.setdefault(value.router, {})[key.floating_ip] = value
    return nats
