"""The desired state of one router on this host.  Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from ipaddress import IPv6Address, ip_interface

from attrs import frozen

from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.drivers.values.router_values import (
    HA_PRIORITY,
    MAX_HA_PEERS,
    METADATA_PORT,
    FloatingIpNat,
    FullRouter,
    Gateway,
    HighAvailability,
    RouterPort,
    RouterState,
)
from netfw.model.address import IpAddress
from netfw.model.device_owner import DeviceOwner, is_router_interface
from netfw.model.floating_ip import FloatingIp
from netfw.model.ids import AddressScopeId, NetworkId, PortId, RouterId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.model.subnet import Subnet

NOT_CONTRIBUTED = "it stands for no port, and no extension of this host uses it"


@frozen(kw_only=True)
class L3HostContext:
    """The host and the settings that the desired state depends on."""

    host: str
    metadata_port: int | None = METADATA_PORT
    """Port of the metadata proxy in each router; ``None``: no metadata through routers."""
    ipv6_gateway: IPv6Address | None = None
    """Link-local next hop on external networks whose IPv6 subnets have no gateway."""
    handle_internal_only_routers: bool = True
    gateway_external_network_id: NetworkId | None = None
    """The only external network of this host; ``None``: any."""
    supports_ha: bool = False
    """The router driver has highly available routers."""
    ha_priority: int = HA_PRIORITY
    """Priority of this host in the elections of highly available routers."""


@frozen(kw_only=True)
class Absent:
    """A router or floating IP of the source that is not to be on this host."""

    reason: str
    refused: bool = False
    """This host cannot run it: its key fails."""
    waits: bool = False
    """The server has not created everything yet that this host needs: its key waits."""


@frozen(kw_only=True)
class ContributedFloatingIp:
    """A floating IP whose address and rules extensions contribute to its router."""

    router: RouterId
    gateway_port: PortId | None
    """The port that has its address."""


def make_router_state(
    router: Router, index: L3ResourceIndex, context: L3HostContext
) -> RouterState | Absent | None:
    """Return the desired state of *router*, without contributions; ``None``: not this host's."""
    ports = [port for port in index.ports(router.id) if port.admin_up]
    gateway_port = next((p for p in ports if p.device_owner == DeviceOwner.ROUTER_GATEWAY), None)
    if router.distributed and not _is_bound_here(gateway_port, context):
        return None  # delivered since an instance of this host is on one of its subnets
    if not router.admin_up:
        return Absent(reason="the router is administratively down")
    refusal = _refusal(router, context)
    if refusal is not None:
        return Absent(reason=refusal, refused=True)
    interfaces = [
        made
        for port in ports
        if is_router_interface(port.device_owner)
        and (made := _make_router_port(port, index)) is not None
    ]
    ha = _make_ha(router, ports, index, context) if router.ha else None
    if isinstance(ha, Absent):
        return ha
    gateway = None
    if router.gateway is not None and gateway_port is not None:
        ipv6 = any(a.version == 6 for each in interfaces for a in each.addresses)
        gateway = _make_gateway(router.gateway.enable_snat, gateway_port, index, context, ipv6)
    return RouterState(
        full=FullRouter(interfaces=tuple(interfaces), gateway=gateway, ha=ha),
        routes=router.routes,
        metadata_port=context.metadata_port,
    )


def make_floating_ip(
    floating: FloatingIp, router: RouterState, contributed: Container[IpAddress]
) -> FloatingIpNat | ContributedFloatingIp | Absent | None:
    """Return the desired state of a floating IP of *router*; ``None``: it has no router.

    *contributed* are the addresses that extensions contribute to its router.
    """
    if floating.router_id is None:
        return None
    if floating.fixed_address is None:
        if floating.address in contributed:
            gateway_port = gateway_port_of(router)
            return ContributedFloatingIp(router=floating.router_id, gateway_port=gateway_port)
        return Absent(reason=NOT_CONTRIBUTED)
    return FloatingIpNat(
        router=floating.router_id,
        external_network=floating.network_id,
        floating_address=floating.address,
        fixed_address=floating.fixed_address,
    )


def gateway_port_of(router: RouterState | None) -> PortId | None:
    """Return the gateway port of a router, if it has one."""
    full = None if router is None else router.full
    return None if full is None or full.gateway is None else full.gateway.port.id


def _is_bound_here(port: Port | None, context: L3HostContext) -> bool:
    return port is not None and port.binding.is_on(context.host)


def _refusal(router: Router, context: L3HostContext) -> str | None:
    """Return why this host cannot run *router*; ``None``: it can."""
    network = None if router.gateway is None else router.gateway.network_id
    only = context.gateway_external_network_id
    if router.distributed:
        return "the router is distributed, and agent_mode of this host is legacy"
    if router.ha and not context.supports_ha:
        return "the router is highly available, which the router driver of this host does not have"
    if network is None and not context.handle_internal_only_routers:
        return "the router has no gateway, and handle_internal_only_routers is false on this host"
    if network is not None and only is not None and network != only:
        return f"the router's gateway is on network {network}; this host has {only} only"
    return None


def _make_ha(
    router: Router, ports: Sequence[Port], index: L3ResourceIndex, context: L3HostContext
) -> HighAvailability | Absent:
    """Return the settings of a highly available router, or what this host lacks of them."""
    ha_ports = [port for port in ports if port.device_owner == DeviceOwner.ROUTER_HA_INTERFACE]
    own = next((port for port in ha_ports if port.binding.is_on(context.host)), None)
    if own is None:
        return Absent(reason="the router has no HA port for this host yet", waits=True)
    made = _make_router_port(own, index)
    if made is None or not made.addresses:
        lacks = "network" if made is None else "address"
        return Absent(reason=f"HA port {own.id} of the router has no {lacks} yet", waits=True)
    if router.vrid is None:
        return Absent(reason="the router has no virtual router id yet", waits=True)
    peers = [fixed.address for port in ha_ports if port is not own for fixed in port.fixed_ips]
    if len(peers) > MAX_HA_PEERS:
        reason = f"the router is on {len(peers) + 1} hosts; at most {MAX_HA_PEERS + 1} are possible"
        return Absent(reason=f"{reason}: lower max_l3_agents_per_router", refused=True)
    return HighAvailability(
        port=made, vrid=router.vrid, priority=context.ha_priority, peers=tuple(peers)
    )


def _make_router_port(port: Port, index: L3ResourceIndex) -> RouterPort | None:
    network = index.network(port.network_id)
    if network is None:
        return None
    subnets = {subnet.id: subnet for subnet in index.subnets(network.id)}
    fixed_ips = [fixed for fixed in port.fixed_ips if fixed.subnet_id in subnets]
    addresses = [f"{f.address}/{subnets[f.subnet_id].cidr.prefixlen}" for f in fixed_ips]
    return RouterPort(
        id=port.id,
        network=network.id,
        mac=port.mac,
        addresses=tuple(map(ip_interface, addresses)),
        subnets=tuple(dict.fromkeys(subnets[fixed.subnet_id] for fixed in fixed_ips)),
        mtu=network.mtu,
        scopes=_scopes(network),
    )


def _make_gateway(
    snat: bool, port: Port, index: L3ResourceIndex, context: L3HostContext, ipv6: bool
) -> Gateway | None:
    """Return the gateway; *ipv6*: an interface has IPv6, so that it needs a way out."""
    made = _make_router_port(port, index)
    if made is None:
        return None
    others = (each for each in index.subnets(made.network) if each not in made.subnets)
    next_hops = _next_hops(made.subnets, context.ipv6_gateway if ipv6 else None)
    return Gateway(
        port=made,
        snat=snat,
        next_hops=next_hops,
        ipv6_from_ra=ipv6 and all(hop.version == 4 for hop in next_hops),
        onlink_subnets=tuple(subnet.cidr for subnet in others),
    )


def _next_hops(
    subnets: Iterable[Subnet], ipv6_gateway: IPv6Address | None
) -> tuple[IpAddress, ...]:
    """Return one next hop per family: of the first subnet with a gateway, else *ipv6_gateway*."""
    by_family: dict[int, IpAddress] = {}
    for subnet in subnets:
        if subnet.gateway is not None:
            by_family.setdefault(subnet.ip_version, subnet.gateway)
    if ipv6_gateway is not None:
        by_family.setdefault(6, ipv6_gateway)
    return tuple(by_family[version] for version in sorted(by_family))


def _scopes(network: Network) -> dict[int, AddressScopeId]:
    scopes = {4: network.ipv4_address_scope, 6: network.ipv6_address_scope}
    return {version: scope for version, scope in scopes.items() if scope is not None}
