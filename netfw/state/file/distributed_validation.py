"""Warnings about distributed routers that their hosts cannot serve as stated.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from netfw.model.device_owner import DeviceOwner, is_distributed
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import Router
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import Entry, Gathered
from netfw.state.file.name_resolution import as_id

Resources = Mapping[Ref, Resource]


def distributed_router_warnings(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the warnings about interfaces, gateways of agents and floating IPs."""
    gateways: dict[tuple[UUID, str], Entry] = {}
    central: set[tuple[UUID | None, UUID]] = set()
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Port(device_owner=DeviceOwner.FLOATING_IP_AGENT_GATEWAY) as port:
                yield from _gateway_warnings(entry, port, resources, gateways)
            case Port(device_owner=DeviceOwner.ROUTER_CENTRALIZED_SNAT) as port:
                central |= {(as_id(port.device_id), fixed.subnet_id) for fixed in port.fixed_ips}
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Port() as port if is_distributed(port.device_owner):
                yield from _interface_warnings(entry, port, resources, central)
            case FloatingIp(host=str(), router_id=UUID()) as floating:
                yield from _floating_ip_warnings(entry, floating, resources, gateways)


def _gateway_warnings(
    entry: Entry, port: Port, resources: Resources, gateways: dict[tuple[UUID, str], Entry]
) -> Iterator[Diagnostic]:
    network = resources.get(Ref(Kind.NETWORK, port.network_id))
    if isinstance(network, Network) and not network.external:
        yield entry.diagnostic("network_id", "is not external: no floating IP is there")
    if not port.binding.host:
        yield entry.diagnostic("", "is the gateway of no host: state host")
        return
    other = gateways.setdefault((port.network_id, port.binding.host), entry)
    if other is not entry:
        yield entry.diagnostic("", f"the host has a gateway on the network: {other.path}")


def _interface_warnings(
    entry: Entry, port: Port, resources: Resources, central: set[tuple[UUID | None, UUID]]
) -> Iterator[Diagnostic]:
    if port.binding.all_hosts:
        field = "binding:hosts" if port.binding.hosts else "binding:host_id"
        problem = "an interface of a distributed router is on every host with an instance"
        yield entry.diagnostic(field, f"{problem}; remove it")
    id = as_id(port.device_id)
    router = None if id is None else resources.get(Ref(Kind.ROUTER, id))
    if not isinstance(router, Router) or router.gateway is None:
        return
    for position, fixed in enumerate(port.fixed_ips):
        if (id, fixed.subnet_id) not in central:
            problem = "instances without a floating IP do not leave: the router has no central port"
            owner = f"device_owner: {DeviceOwner.ROUTER_CENTRALIZED_SNAT}"
            advice = f"add one on this subnet, with router, host and {owner}"
            yield entry.diagnostic(f"fixed_ips[{position}]", f"{problem}; {advice}")


def _floating_ip_warnings(
    entry: Entry,
    floating: FloatingIp,
    resources: Resources,
    gateways: Mapping[tuple[UUID, str], Entry],
) -> Iterator[Diagnostic]:
    router = resources.get(Ref(Kind.ROUTER, floating.router_id or UUID(int=0)))
    if isinstance(router, Router) and not router.distributed:
        problem = "the router is not distributed, so that its floating IPs are where it is assigned"
        yield entry.diagnostic("host", f"{problem}; remove host")
    elif (floating.network_id, floating.host) not in gateways:
        problem = f"{floating.host} has no gateway on the external network"
        advice = "state agent_gateways of the host, with the network and an address"
        yield entry.diagnostic("host", f"{problem}; {advice}")
