"""Defaults for attributes that a file leaves out.  Pure: bodies in, bodies completed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID, uuid5

from netfw.model.binding import VifType
from netfw.model.network import Network
from netfw.model.segment import NetworkType
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import NetworkId
from netfw.model.wire.codec import describe
from netfw.model.wire.scalars import ADDRESS, CIDR
from netfw.state.file.name_resolution import Body, Found
from netfw.state.file.router_defaults import complete_router_port

UNDERLAY_MTU: Final = 1500
OVERHEAD: Final[Mapping[str, int]] = {
    NetworkType.VXLAN: 50,
    NetworkType.GRE: 42,
    NetworkType.GENEVE: 58,
}
"""Bytes of encapsulation over IPv4, by type; `IPV6_OVERHEAD` is added over IPv6."""
IPV6_OVERHEAD: Final = 20

Subnets = Mapping[NetworkId, tuple[Subnet, ...]]


def complete_network(body: Body, over_ipv6: bool) -> None:
    """Set the MTU inside the tunnel."""
    kind = body.get("provider:network_type")
    if "mtu" not in body and isinstance(kind, str) and kind in OVERHEAD:
        body["mtu"] = UNDERLAY_MTU - OVERHEAD[kind] - (IPV6_OVERHEAD if over_ipv6 else 0)


def complete_subnet(body: Body) -> None:
    """Set the gateway to the first address, as the API does; ``null`` means none."""
    if "gateway_ip" in body:
        return
    try:
        block = CIDR.parse(body.get("cidr"))
    except ValueError:
        return
    if block.num_addresses > 2:
        body["gateway_ip"] = str(block[1])


def complete_policy(body: Body, id: UUID) -> None:
    """Set the ids of the rules of a QoS policy: one for each type and direction."""
    rules = body.get("rules")
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, dict):
            name = f"{rule.get('type')} {rule.get('direction')}"
            rule.setdefault("id", str(uuid5(id, name)))


def complete_port(
    body: Body,
    id: UUID,
    networks: Mapping[NetworkId, Network],
    subnets: Subnets,
    interface_owners: Mapping[str, DeviceOwner] = MappingProxyType({}),
) -> Iterator[Found]:
    """Set the MAC address, the subnets of fixed IPs, and what is inherited from the network.

    *interface_owners* has, by id, the owner of the interfaces of routers that are not plain.  Yield
    the problems found.
    """
    body.setdefault("mac_address", mac_of(id))
    network_id = _network_id(body)
    yield from complete_router_port(body, networks.get(network_id), interface_owners)
    if body.get("device_owner") == DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED:
        body.setdefault("binding:vif_type", VifType.DISTRIBUTED.value)
    if body.get("binding:host_id") or body.get("binding:hosts"):
        body.setdefault("binding:vif_type", VifType.OVS.value)
    if (network := networks.get(network_id)) is not None:
        body.setdefault("port_security_enabled", network.port_security)
        if network.qos_policy_id is not None:
            body.setdefault("qos_network_policy_id", str(network.qos_policy_id))
    fixed = body.get("fixed_ips")
    if isinstance(fixed, list):
        for position, raw in enumerate(fixed):
            fixed[position] = entry = {"ip_address": raw} if isinstance(raw, str) else raw
            if isinstance(entry, dict) and "subnet_id" not in entry:
                problem = _set_subnet(entry, subnets.get(network_id, ()))
                if problem:
                    yield f"fixed_ips[{position}]", problem


def mac_of(id: UUID) -> Mac:
    """Return the default MAC address of a port: 40 bits of its id, against collisions."""
    return Mac("fa:" + ":".join(f"{byte:02x}" for byte in id.bytes[-5:]))


def _network_id(body: Body) -> NetworkId:
    try:
        return NetworkId(UUID(str(body.get("network_id"))))
    except ValueError:
        return NetworkId(UUID(int=0))


def _set_subnet(entry: dict[str, Any], subnets: tuple[Subnet, ...]) -> str:
    """Set the subnet of an address; return the problem if there is none."""
    try:
        address: IpAddress = ADDRESS.parse(entry.get("ip_address"))
    except ValueError:
        entry["subnet_id"] = str(UUID(int=0))  # the address is refused when it is read
        return "" if "ip_address" in entry else f"has no address: {describe(entry)}"
    containing = [subnet for subnet in subnets if address in subnet.cidr]
    if not containing:
        entry["subnet_id"] = str(UUID(int=0))
        known = ", ".join(str(subnet.cidr) for subnet in subnets) or "none"
        return f"no subnet of the network contains {address}; it has {known}"
    entry["subnet_id"] = str(max(containing, key=lambda subnet: subnet.cidr.prefixlen).id)
    return ""
