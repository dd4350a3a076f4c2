"""Answers to requests of agents, computed from resources in memory.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from ipaddress import IPv6Network
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from attrs import evolve

from netfw.drivers.values.agent_requests import EnsureDhcpPort, FindPorts, ReleaseDhcpPort
from netfw.errors import Conflict, NotFound
from netfw.model.binding import Binding
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Resource
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, Mac, eui64, link_local_mac
from netfw.model.values.device_owner import DeviceOwner, is_dhcp, is_router_port
from netfw.model.values.ids import NetworkId, PortId, SubnetId

RESERVED_DHCP_DEVICE = "reserved_dhcp_port"
DESCRIBED_SERVICES: Final = frozenset({"port_forwarding", "router", "security_groups"})
"""Service plugins of a server whose resources a source without a server describes."""


def find_ports(request: FindPorts, resources: Iterable[Resource]) -> tuple[Port, ...]:
    """Return the ports with the requested address, on the network or behind the router."""
    ports = [resource for resource in resources if isinstance(resource, Port)]
    networks = {
        port.network_id
        for port in ports
        if is_router_port(port.device_owner) and port.device_id == str(request.router)
    }
    if request.network is not None:
        networks = {request.network}
    return tuple(port for port in ports if port.network_id in networks and _has(port, request))


def _has(port: Port, request: FindPorts) -> bool:
    return request.address in taken_addresses([port]) or port.mac == link_local_mac(request.address)


def dhcp_device_id(host: str, network: NetworkId) -> str:
    """Return the ``device_id`` of the port from which *host* serves *network*."""
    return f"dhcp{uuid5(NAMESPACE_DNS, host)}-{network}"


def dhcp_port(request: EnsureDhcpPort, resources: Collection[Resource]) -> Port:
    """Return the port that answers *request*: as it is, completed, adopted, or new.

    :raises NotFound: the network or one of its subnets does not exist.
    :raises Conflict: a subnet has no address left.
    """
    if not any(isinstance(r, Network) and r.id == request.network for r in resources):
        raise NotFound(f"there is no network {request.network}")
    ports = [r for r in resources if isinstance(r, Port) and r.network_id == request.network]
    port = _own(request, ports) or _reserved(ports) or _new(request)
    subnets = {r.id: r for r in resources if isinstance(r, Subnet)}
    others = taken_addresses(other for other in ports if other.id != port.id)
    fixed = [kept for kept in port.fixed_ips if kept.subnet_id in request.subnets]
    missing = request.subnets - {kept.subnet_id for kept in fixed}
    fixed += [_fixed_ip(id, port.mac, subnets, others) for id in sorted(missing)]
    return evolve(
        port,
        device_id=dhcp_device_id(request.host, request.network),
        binding=evolve(port.binding, host=request.host),
        fixed_ips=tuple(fixed),
    )


def find_released_dhcp_port(request: ReleaseDhcpPort, resources: Iterable[Resource]) -> Port | None:
    """Return the port to delete, if it still exists."""
    device = dhcp_device_id(request.host, request.network)
    for resource in resources:
        if isinstance(resource, Port) and _serves(resource, device):
            return resource
    return None


def _serves(port: Port, device: str) -> bool:
    """Return whether a port is a DHCP port with *device* as its id; owner and id are checked."""
    return is_dhcp(port.device_owner) and port.device_id == device


def _own(request: EnsureDhcpPort, ports: Iterable[Port]) -> Port | None:
    device = dhcp_device_id(request.host, request.network)
    return next((port for port in ports if _serves(port, device)), None)


def _reserved(ports: Iterable[Port]) -> Port | None:
    return next((port for port in ports if _serves(port, RESERVED_DHCP_DEVICE)), None)


def _new(request: EnsureDhcpPort) -> Port:
    id = uuid5(request.network, f"dhcp {request.host}")
    tail = ":".join(f"{byte:02x}" for byte in id.bytes[-3:])
    return Port(
        id=PortId(id),
        network_id=request.network,
        mac=Mac(f"fa:16:3e:{tail}"),
        device_owner=DeviceOwner.DHCP.value,
        port_security=False,
        binding=Binding(host=request.host),
    )


def _fixed_ip(
    id: SubnetId, mac: Mac, subnets: dict[SubnetId, Subnet], taken: set[IpAddress]
) -> FixedIp:
    subnet = subnets.get(id)
    if subnet is None:
        raise NotFound(f"there is no subnet {id}")
    for address in free_addresses(subnet, mac, taken):
        return FixedIp(subnet_id=id, address=address)
    raise Conflict(f"subnet {id} ({subnet.cidr}) has no free address left for its DHCP port")


def free_addresses(subnet: Subnet, mac: Mac, taken: Container[IpAddress]) -> Iterator[IpAddress]:
    """Yield the addresses of *subnet* that a port with *mac* may have, without those *taken*."""
    return (address for address in _candidates(subnet, mac) if address not in taken)


def _candidates(subnet: Subnet, mac: Mac) -> Iterator[IpAddress]:
    if subnet.automatic and isinstance(subnet.cidr, IPv6Network):
        yield eui64(subnet.cidr, mac)
        return
    if not subnet.allocation_pools:
        yield from (address for address in subnet.cidr.hosts() if address != subnet.gateway)
    for pool in subnet.allocation_pools:
        for number in range(int(pool.start), int(pool.end) + 1):
            address = type(pool.start)(number)
            if address != subnet.gateway:
                yield address


def taken_addresses(ports: Iterable[Port]) -> set[IpAddress]:
    """Return the addresses of *ports*."""
    return {fixed.address for port in ports for fixed in port.fixed_ips}
