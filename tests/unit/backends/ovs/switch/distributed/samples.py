"""Distributed routers as values, and their flows."""

from ipaddress import ip_interface

from attrs import evolve

from netfw import flows as of
from netfw.drivers.values.keys import HostKey
from netfw.drivers.values.switch_values import (
    HostMac,
    LocalNetwork,
    RouterInterface,
    SwitchKey,
    SwitchValue,
)
from netfw.model.values.address import Mac
from netfw_drivers.ovs.pipeline.distributed_routing import (
    RoutedSegment,
    interface_flows,
    plan_interfaces,
)
from tests.unit.backends.ovs.switch.samples import network, peer, port_key

H, OTHER = Mac("fa:16:3f:00:00:01"), Mac("fa:16:3f:00:00:02")
TUNNELLED, PHYSICAL = RoutedSegment(7, 3, tunnelled=True), RoutedSegment(7, 3, tunnelled=False)


def router(number: int, *addresses: str) -> RouterInterface:
    found = frozenset(map(ip_interface, addresses or (f"10.0.{number}.1/24",)))
    return RouterInterface(port_key(number).port, f"fa:16:3e:00:00:{number:02x}", found)


def numbered(number: int) -> RouterInterface:
    """Return one of more router interfaces than a byte can number."""
    mac = f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}"
    return RouterInterface(port_key(number).port, mac, frozenset())


R = router(9, "10.0.0.1/24", "fd00::1/64")


def routed(
    number: int, *routers: RouterInterface, kind: str = "vxlan", **provider: int
) -> dict[SwitchKey, SwitchValue]:
    """Return a network with distributed routers."""
    provider = provider or {"segmentation_id": 100 + number}
    return {
        key: evolve(value, router_interfaces=frozenset(routers))
        for key, value in network(number, kind, **provider).items()
        if isinstance(value, LocalNetwork)
    }


def own(mac: Mac = H) -> dict[SwitchKey, SwitchValue]:
    return {HostKey("here"): HostMac(mac, own=True)}


def host(number: int, mac: Mac = OTHER) -> dict[SwitchKey, SwitchValue]:
    return {HostKey(f"host{number}"): HostMac(mac, endpoints=frozenset({peer(number)}))}


def flows_of(
    *routers: RouterInterface, segment: RoutedSegment = TUNNELLED, mac: Mac | None = H
) -> list[of.Flow]:
    planned = plan_interfaces(frozenset(routers))
    return [flow for one in planned for flow in interface_flows([segment], one, mac)]
