"""Faults of highly available routers that no host could implement.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfw.model.address import IpNetwork
from netfw.model.device_owner import DeviceOwner, is_router_attachment
from netfw.model.ids import NetworkId, RouterId
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import VRIDS, Router, find_ha_overlap, find_ha_override
from netfw.model.subnet import Subnet
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import Entry, Gathered
from netfw.state.file.name_resolution import as_id

Resources = Mapping[Ref, Resource]
Routers = Mapping[RouterId, tuple[Entry, Router]]
PortsOfRouters = list[tuple[Entry, Port, RouterId]]


def ha_router_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the errors of all highly available routers and their ports."""
    routers: dict[RouterId, tuple[Entry, Router]] = {}
    ports: PortsOfRouters = []
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Router(ha=True) as router:
                routers[router.id] = entry, router
            case Port() as port if (router_id := as_id(port.device_id)) is not None:
                ports.append((entry, port, RouterId(router_id)))
    ports = [each for each in ports if each[2] in routers]
    yield from _vrid_errors(routers, ports)
    yield from _host_errors(ports)
    yield from _prefix_errors(routers, ports, resources)


def _vrid_errors(routers: Routers, ports: PortsOfRouters) -> Iterator[Diagnostic]:
    for entry, router in routers.values():
        if router.vrid is None:
            yield entry.diagnostic(
                "vrid",
                f"is missing: state a number, {VRIDS[0]} to {VRIDS[-1]}, another one for each "
                "router of an HA network",
            )
    users: dict[tuple[NetworkId, int], RouterId] = {}
    refused: set[RouterId] = set()
    for _, port, id in ports:
        entry, router = routers[id]
        if router.vrid is None or not _is_ha_port(port) or id in refused:
            continue
        user = users.setdefault((port.network_id, router.vrid), id)
        if user != id:
            refused.add(id)
            other = routers[user][0]
            problem = f"{router.vrid} is also that of {other.path} in {other.file}"
            yield entry.diagnostic("vrid", f"{problem}, on the same HA network; state another one")


def _host_errors(ports: PortsOfRouters) -> Iterator[Diagnostic]:
    seen: dict[tuple[RouterId, str], Entry] = {}
    for entry, port, router in ports:
        if is_router_attachment(port.device_owner) and not port.binding.hosts:
            problem = "a port of a highly available router is on all its hosts"
            yield entry.diagnostic("", f"{problem}; state hosts, those that the router is on")
        elif _is_ha_port(port) and not port.binding.host:
            yield entry.diagnostic("", "an HA port is on one host; state host")
        elif _is_ha_port(port):
            other = seen.setdefault((router, port.binding.host), entry)
            if other is not entry:
                problem = f"{port.binding.host} has an HA port of the router: {other.path}"
                advice = "remove one of them, or state another host"
                yield entry.diagnostic("binding:host_id", f"{problem} in {other.file}; {advice}")


def _prefix_errors(
    routers: Routers, ports: PortsOfRouters, resources: Resources
) -> Iterator[Diagnostic]:
    """Yield the errors of addresses and routes that hide the HA network."""
    ha_prefixes: dict[RouterId, set[IpNetwork]] = {id: set() for id in routers}
    for _, port, id in ports:
        if _is_ha_port(port):
            ha_prefixes[id] |= {subnet.cidr for _, subnet in _subnets_of(port, resources)}
    use = "which the hosts of the router use among themselves"
    for entry, port, id in ports:
        for at, subnet in () if _is_ha_port(port) else _subnets_of(port, resources):
            if prefix := find_ha_overlap(subnet.cidr, ha_prefixes[id]):
                problem = f"{subnet.cidr} overlaps {prefix}, {use}; state another subnet"
                yield entry.diagnostic(f"fixed_ips[{at}]", problem)
    for entry, router in routers.values():
        for at, route in enumerate(router.routes):
            if prefix := find_ha_override(route.destination, ha_prefixes[router.id]):
                problem = f"{route.destination} would override {prefix}, {use}"
                yield entry.diagnostic(f"routes[{at}].destination", f"{problem}; remove the route")


def _subnets_of(port: Port, resources: Resources) -> Iterator[tuple[int, Subnet]]:
    """Yield the subnets of the addresses of *port* with the positions of these."""
    for at, fixed in enumerate(port.fixed_ips):
        subnet = resources.get(Ref(Kind.SUBNET, fixed.subnet_id))
        if isinstance(subnet, Subnet):
            yield at, subnet


def _is_ha_port(port: Port) -> bool:
    return port.device_owner == DeviceOwner.ROUTER_HA_INTERFACE
