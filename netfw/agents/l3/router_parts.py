"""Parts of the desired state of plain and distributed routers.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address, ip_interface

from attrs import frozen

from netfw.agents.l3.agent_mode import AgentMode
from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.drivers.values.router_values import (
    HA_PRIORITY,
    MAX_HA_PEERS,
    METADATA_PORT,
    Gateway,
    HighAvailability,
    RouterPort,
)
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.device_owner import DeviceOwner, is_router_interface
from netfw.model.values.ids import AddressScopeId, NetworkId

ADMIN_DOWN = "the router is administratively down"
NO_HA = "the router is highly available, which the router driver of this host does not have"


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
    agent_mode: AgentMode = AgentMode.LEGACY
    enable_inat_enat: bool = False
    """Floating IPs are translated elsewhere: this host has none, and no agent gateway."""

    @property
    def has_agent_gateways(self) -> bool:
        """Whether floating IPs of the instances of this host are translated here."""
        return self.agent_mode.has_agent_gateways and not self.enable_inat_enat

    def gateway_problem(self, network: NetworkId | None) -> str | None:
        """Return why this host cannot have a gateway to *network*; ``None``: it can."""
        only = self.gateway_external_network_id
        if network is None or only is None or network == only:
            return None
        return f"the router's gateway is on network {network}; this host has {only} only"


@frozen(kw_only=True)
class NotOnHost:
    """A router or floating IP of the source that is not to be on this host."""

    reason: str
    refused: bool = False
    """This host cannot run it: its key fails."""
    waits: bool = False
    """The server has not created everything yet that this host needs: its key waits."""


def make_ha(
    router: Router, ports: Sequence[Port], index: L3ResourceIndex, context: L3HostContext
) -> HighAvailability | NotOnHost:
    """Return the settings of a highly available router, or what this host lacks of them."""
    ha_ports = [port for port in ports if port.device_owner == DeviceOwner.ROUTER_HA_INTERFACE]
    own = next((port for port in ha_ports if port.binding.is_on(context.host)), None)
    if own is None:
        return NotOnHost(reason="the router has no HA port for this host yet", waits=True)
    made = make_router_port(own, index)
    if made is None or not made.addresses:
        lacks = "network" if made is None else "address"
        return NotOnHost(reason=f"HA port {own.id} of the router has no {lacks} yet", waits=True)
    if router.vrid is None:
        return NotOnHost(reason="the router has no virtual router id yet", waits=True)
    peers = [fixed.address for port in ha_ports if port is not own for fixed in port.fixed_ips]
    if len(peers) > MAX_HA_PEERS:
        reason = f"the router is on {len(peers) + 1} hosts; at most {MAX_HA_PEERS + 1} are possible"
        return NotOnHost(reason=f"{reason}: lower max_l3_agents_per_router", refused=True)
    return HighAvailability(
        port=made, vrid=router.vrid, priority=context.ha_priority, peers=tuple(peers)
    )


def make_router_port(port: Port, index: L3ResourceIndex) -> RouterPort | None:
    """Return the desired state of a port of a router; ``None``: its network is not known."""
    network = index.network(port.network_id)
    if network is None:
        return None
    return describe_port(port, index.subnets(network.id), network.mtu, scopes_of(network))


def describe_port(
    port: Port, of_network: Iterable[Subnet], mtu: int, scopes: Mapping[int, AddressScopeId]
) -> RouterPort:
    """Return *port* of a network with these subnets, MTU and address scopes, for a driver.

    It has no address on a subnet to which no prefix is delegated yet.  A prefix is delegated to the
    router with the gateway address of the subnet, and not to others on a shared network.
    """
    known = {subnet.id: subnet for subnet in of_network}
    subnets = {id: subnet for id, subnet in known.items() if not subnet.provisional}
    fixed_ips = [fixed for fixed in port.fixed_ips if fixed.subnet_id in subnets]
    own = {(fixed.subnet_id, fixed.address) for fixed in port.fixed_ips}
    mine = (subnet for subnet in known.values() if (subnet.id, subnet.gateway) in own)
    addresses = [f"{f.address}/{subnets[f.subnet_id].cidr.prefixlen}" for f in fixed_ips]
    return RouterPort(
        id=port.id,
        network=port.network_id,
        mac=port.mac,
        addresses=tuple(map(ip_interface, addresses)),
        subnets=tuple(dict.fromkeys(subnets[fixed.subnet_id] for fixed in fixed_ips)),
        mtu=mtu,
        scopes=scopes,
        delegated=frozenset(subnet.id for subnet in mine if subnet.delegated),
    )


def make_interfaces(ports: Iterable[Port], index: L3ResourceIndex) -> tuple[RouterPort, ...]:
    """Return those of the ports of a router that connect it to networks of projects."""
    interfaces = (port for port in ports if is_router_interface(port.device_owner))
    made = (make_router_port(port, index) for port in interfaces)
    return tuple(port for port in made if port is not None)


def find_gateway_port(ports: Iterable[Port]) -> Port | None:
    """Return the gateway port among the ports of a router."""
    return next((p for p in ports if p.device_owner == DeviceOwner.ROUTER_GATEWAY), None)


def has_ipv6(ports: Iterable[RouterPort]) -> bool:
    """Return whether one of *ports* has an IPv6 address."""
    return any(address.version == 6 for port in ports for address in port.addresses)


def make_gateway(
    snat: bool, port: Port, index: L3ResourceIndex, context: L3HostContext, ipv6: bool
) -> Gateway | None:
    """Return the gateway; *ipv6*: an interface has IPv6, so that it needs a way out."""
    made = make_router_port(port, index)
    if made is None:
        return None
    others = (each for each in index.subnets(made.network) if each not in made.subnets)
    next_hops = find_next_hops(made.subnets, context.ipv6_gateway if ipv6 else None)
    return Gateway(
        port=made,
        snat=snat,
        next_hops=next_hops,
        ipv6_from_ra=ipv6 and all(hop.version == 4 for hop in next_hops),
        onlink_subnets=tuple(subnet.cidr for subnet in others),
    )


def find_next_hops(
    subnets: Iterable[Subnet], ipv6_gateway: IPv6Address | None = None
) -> tuple[IpAddress, ...]:
    """Return one next hop per family: of the first subnet with a gateway, else *ipv6_gateway*."""
    by_family: dict[int, IpAddress] = {}
    for subnet in subnets:
        if subnet.gateway is not None:
            by_family.setdefault(subnet.ip_version, subnet.gateway)
    if ipv6_gateway is not None:
        by_family.setdefault(6, ipv6_gateway)
    return tuple(by_family[version] for version in sorted(by_family))


def scopes_of(network: Network) -> dict[int, AddressScopeId]:
    """Return the address scopes of a network, by IP version."""
    scopes = {4: network.ipv4_address_scope, 6: network.ipv6_address_scope}
    return {version: scope for version, scope in scopes.items() if scope is not None}
