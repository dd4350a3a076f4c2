"""The monitor of routers, without a machine."""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any, cast
from uuid import UUID

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.linux.router_netns import NetnsPort
from netfw.model.ids import PortId, RouterId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.names import router_namespace
from netfw_drivers.linux_router.runtime.router_monitor import ConvergedRouter, RouterMonitor

ROUTER, GATEWAY = RouterId(UUID(int=1)), PortId(UUID(int=2))


class Interface:
    """An interface driver and an executor without ports."""

    def describe(self) -> DriverInfo[HostCapability]:
        return DriverInfo("none", (HostCapability.WATCH,))

    def device(self, _port: PortId) -> None:
        return None


class Recorded:
    """Announced addresses, by namespace."""

    def __init__(self) -> None:
        self.known: dict[str, set[str]] = {}

    def update(self, netns: str, addresses: Any, _floating: Any) -> None:
        self.known[netns] = {str(each.address) for each in addresses}

    def forget(self, netns: str) -> None:
        self.known.pop(netns, None)


def router(*cidrs: str) -> ConvergedRouter:
    addresses = tuple(map(ip_interface, cidrs))
    gateway = NetnsPort(
        port=GATEWAY, device="qg-1", mac="fa:16:3e:00:00:01", mtu=1500, addresses=addresses
    )
    return ConvergedRouter(id=ROUTER, ports=(gateway,))


def test_a_thread_that_was_late_announces_no_former_address() -> None:
    nothing = cast(Any, Interface())
    monitor = RouterMonitor(nothing, nothing, RouterSettings(), nothing, lambda event: None)
    announced = Recorded()
    monitor._announcements = cast(Any, announced)
    former, now = router("203.0.113.5/24", "203.0.113.9/32"), router("203.0.113.5/24")
    monitor.resume(former, watch=False)
    monitor.resume(now, watch=False)
    monitor._announce(former, frozenset())
    assert announced.known == {router_namespace(ROUTER): {"203.0.113.5"}}
    monitor.forget(ROUTER)
    monitor._announce(now, frozenset())
    assert announced.known == {}
