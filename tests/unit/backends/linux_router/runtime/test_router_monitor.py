"""The monitor of routers, without a machine."""

from __future__ import annotations

import threading
from ipaddress import IPv4Network, ip_interface
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.events import Event, KeysChanged
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import RoleChanged
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.linux.router_netns import NetnsPort
from netfw.model.router import HaRole
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId, RouterId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.distributed.gateway_link import GatewayLink, LinkPair
from netfw_drivers.linux_router.plan.names import router_namespace
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex
from netfw_drivers.linux_router.runtime.converged_routers import ConvergedRouter
from netfw_drivers.linux_router.runtime.router_monitor import RouterMonitor

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
    monitor = RouterMonitor(
        nothing, nothing, RouterSettings(), (nothing, nothing), lambda event: None
    )
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


class SilentSwitch(Interface):
    """An interface driver whose switch does not answer for a while."""

    answers = False

    def device(self, _port: PortId) -> None:
        if not self.answers:
            raise BackendUnavailable("no answer")


class Started:
    """Routers whose keepalived was started."""

    def __init__(self) -> None:
        self.routers: list[RouterId] = []

    def start_configured(self, router: RouterId) -> None:
        self.routers.append(router)


def test_keepalived_is_not_started_before_the_switch_says_that_its_port_is_admitted() -> None:
    switch, keepalived, conntrackd, events = SilentSwitch(), Started(), Started(), list[Event]()
    machine = cast(Any, switch)
    daemons = cast(Any, (keepalived, conntrackd))
    monitor = RouterMonitor(machine, machine, RouterSettings(), daemons, events.append)
    port = NetnsPort(port=GATEWAY, device="ha-1", mac="fa:16:3e:00:00:01", mtu=1500)
    available = ConvergedRouter(id=ROUTER, ports=(port,), is_ha=True)
    with pytest.raises(BackendUnavailable):
        monitor.resume(available, watch=False)
    monitor._handle_wiring(GATEWAY)
    assert keepalived.routers == conntrackd.routers == []
    assert [type(each) for each in events] == [KeysChanged], "its convergence tries again"
    switch.answers = True
    monitor.resume(available, watch=False)
    assert keepalived.routers == conntrackd.routers == [ROUTER]


class RefusedOnce(Started):
    """A daemon that cannot be started at first."""

    def start_configured(self, router: RouterId) -> None:
        super().start_configured(router)
        if len(self.routers) == 1:
            raise OperationRefused({router: "it was not ready in time"})


@pytest.mark.parametrize("kinds", [(RefusedOnce, Started), (Started, RefusedOnce)])
def test_router_waits_for_a_daemon_of_the_election_that_cannot_be_started(
    kinds: tuple[type[Started], type[Started]],
) -> None:
    keepalived, conntrackd = (kind() for kind in kinds)
    machine, daemons = cast(Any, Interface()), cast(Any, (keepalived, conntrackd))
    monitor = RouterMonitor(machine, machine, RouterSettings(), daemons, lambda event: None)
    port = NetnsPort(port=GATEWAY, device="ha-1", mac="fa:16:3e:00:00:01", mtu=1500)
    available = ConvergedRouter(id=ROUTER, ports=(port,), is_ha=True)
    keys, floating_ips = {RouterKey(ROUTER)}, {FloatingIpKey(FloatingIpId(UUID(int=3)))}
    waiting = monitor.resume(available, watch=False).waiting(keys, floating_ips)
    assert waiting.keys() == keys | floating_ips
    assert "it was not ready in time" in waiting[RouterKey(ROUTER)]
    assert not monitor.resume(available, watch=False).waiting(keys, floating_ips)
    assert keepalived.routers == [ROUTER, ROUTER]
    assert conntrackd.routers[-1] == ROUTER


def test_router_is_converged_again_whose_daemons_did_not_follow_its_role() -> None:
    nothing, events = cast(Any, Interface()), list[Event]()

    def refuse(part: object, role: HaRole) -> None:
        raise BackendUnavailable("no process can be started now")

    monitor = RouterMonitor(
        nothing, nothing, RouterSettings(), (nothing, nothing), events.append, follow_role=refuse
    )
    monitor._routers[ROUTER] = ConvergedRouter(id=ROUTER, is_ha=True)
    monitor._record_role(ROUTER, HaRole.ACTIVE)
    requeued = [each.keys for each in events if isinstance(each, KeysChanged)]
    assert requeued == [{RouterKey(ROUTER)}]
    assert [each.role for each in events if isinstance(each, RoleChanged)] == [HaRole.ACTIVE]


@pytest.mark.spec("L3-62")
def test_floating_ips_of_a_local_part_follow_the_wiring_of_its_interfaces() -> None:
    nothing, events = cast(Any, Interface()), list[Event]()
    monitor = RouterMonitor(nothing, nothing, RouterSettings(), (nothing, nothing), events.append)
    monitor._announcements = cast(Any, Recorded())
    floating_ip = FloatingIpId(UUID(int=3))
    pair = LinkPair(IPv4Network("169.254.64.0/31"))
    link = GatewayLink(router=ROUTER, network=NetworkId(UUID(int=4)), pair=pair, mtu=1500)
    interface = NetnsPort(port=GATEWAY, device="qr-1", mac="fa:16:3e:00:00:01", mtu=1500)
    index = TranslationIndex(translations=cast(Any, {floating_ip: None}))
    for linked, expected in (
        (link, {RouterKey(ROUTER), FloatingIpKey(floating_ip)}),
        (None, {RouterKey(ROUTER)}),
    ):
        local = ConvergedRouter(id=ROUTER, ports=(interface,), index=index)
        monitor._routers[ROUTER] = evolve(local, link=linked)
        monitor._owners[GATEWAY] = ROUTER
        monitor._handle_wiring(GATEWAY)
        event = events.pop()
        assert isinstance(event, KeysChanged)
        assert set(event.keys) == expected


def test_a_thread_that_was_late_reports_no_former_role() -> None:
    nothing, followed, reported = cast(Any, Interface()), list[HaRole](), list[Event]()

    class Keepalived:
        """A router that is active when it is read, and standby at once."""

        def read_role(self, router: RouterId) -> HaRole:
            other.start()
            other.join(0.3)
            return HaRole.ACTIVE

    monitor = RouterMonitor(
        nothing,
        nothing,
        RouterSettings(),
        (cast(Any, Keepalived()), nothing),
        reported.append,
        follow_role=lambda part, role: followed.append(role),
    )
    monitor._routers[ROUTER] = ConvergedRouter(id=ROUTER, is_ha=True)
    other = threading.Thread(target=monitor._record_role, args=(ROUTER, HaRole.STANDBY))
    monitor._read_role(ROUTER)
    other.join(60)
    assert followed[-1] is cast(Any, reported[-1]).role is HaRole.STANDBY
