"""Warnings about distributed routers that their hosts cannot serve as stated.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final
from uuid import UUID

from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import ExternalGateway, Router
from netfw.model.values.device_owner import DeviceOwner, is_distributed
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import FileEntry, Gathered
from netfw.state.file.ha_validation import assigned_hosts
from netfw.state.file.name_resolution import as_id

Resources = Mapping[Ref, Resource]
_CENTRAL_OWNERS: Final = (DeviceOwner.ROUTER_GATEWAY, DeviceOwner.ROUTER_CENTRALIZED_SNAT)


def distributed_router_warnings(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the warnings about central parts, interfaces, gateways of agents and floating IPs."""
    yield from _central_part_warnings(gathered, resources)
    gateways: dict[tuple[UUID, str], FileEntry] = {}
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


def _central_part_warnings(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the routers with a gateway whose central part no host has, and their stray ports."""
    assigned = assigned_hosts(gathered)
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Router(distributed=True, gateway=ExternalGateway()) as router:
                if router.id not in assigned:
                    problem = "no host has its central part, by which it reaches its gateway"
                    advice = "add {service: l3, host: HOST, router: %s}" % (router.name or key.id)
                    yield entry.diagnostic("", f"{problem}; {advice} to assignments")
            case Port(device_owner=owner) as port if owner in _CENTRAL_OWNERS:
                owner_router = _router_of(port, resources)
                if owner_router is not None and owner_router.distributed:
                    hosts = assigned.get(owner_router.id, {}).keys()
                    yield from _central_port_warnings(entry, port, hosts)


def _central_port_warnings(entry: FileEntry, port: Port, hosts: Set[str]) -> Iterator[Diagnostic]:
    host = port.binding.host
    if port.binding.hosts or not hosts or host in hosts:
        return
    problem = f"{host} does not have the central part" if host else "the port is on no host"
    advice = f"state host: {min(hosts)}, which the router is assigned to"
    yield entry.diagnostic("binding:host_id" if host else "", f"{problem}; {advice}")


def _gateway_warnings(
    entry: FileEntry, port: Port, resources: Resources, gateways: dict[tuple[UUID, str], FileEntry]
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
    entry: FileEntry, port: Port, resources: Resources, central: set[tuple[UUID | None, UUID]]
) -> Iterator[Diagnostic]:
    if port.binding.all_hosts:
        field = "binding:hosts" if port.binding.hosts else "binding:host_id"
        problem = "an interface of a distributed router is on every host with an instance"
        yield entry.diagnostic(field, f"{problem}; remove it")
    router = _router_of(port, resources)
    if router is None or router.gateway is None:
        return
    for position, fixed in enumerate(port.fixed_ips):
        if (router.id, fixed.subnet_id) not in central:
            problem = "instances without a floating IP do not leave: the router has no central port"
            owner = f"device_owner: {DeviceOwner.ROUTER_CENTRALIZED_SNAT}"
            advice = f"add one on this subnet, with router, host and {owner}"
            yield entry.diagnostic(f"fixed_ips[{position}]", f"{problem}; {advice}")


def _router_of(port: Port, resources: Resources) -> Router | None:
    id = as_id(port.device_id)
    router = None if id is None else resources.get(Ref(Kind.ROUTER, id))
    return router if isinstance(router, Router) else None


def _floating_ip_warnings(
    entry: FileEntry,
    floating: FloatingIp,
    resources: Resources,
    gateways: Mapping[tuple[UUID, str], FileEntry],
) -> Iterator[Diagnostic]:
    router = resources.get(Ref(Kind.ROUTER, floating.router_id or UUID(int=0)))
    if isinstance(router, Router) and not router.distributed:
        problem = "the router is not distributed, so that its floating IPs are where it is assigned"
        yield entry.diagnostic("host", f"{problem}; remove host")
    elif (floating.network_id, floating.host) not in gateways:
        problem = f"{floating.host} has no gateway on the external network"
        advice = "state agent_gateways of the host, with the network and an address"
        yield entry.diagnostic("host", f"{problem}; {advice}")
