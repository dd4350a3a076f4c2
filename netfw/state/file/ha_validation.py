"""Faults of highly available routers that no host could implement.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from netfw.drivers.values.subscription import Service
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import HA_MARKERS, VRIDS, Router, find_ha_overlap, find_ha_override
from netfw.model.segment import NetworkType
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.device_owner import DeviceOwner, is_router_attachment, is_trusted
from netfw.model.values.ids import NetworkId, RouterId
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import FileEntry, Gathered
from netfw.state.file.name_resolution import as_id

Resources = Mapping[Ref, Resource]
Routers = Mapping[RouterId, tuple[FileEntry, Router]]
PortsOfRouters = Sequence[tuple[FileEntry, Port, RouterId]]
AssignedHosts = Mapping[RouterId, Mapping[str, FileEntry]]
"""The hosts that L3 agents have each router on."""
_OWNERS: Final = frozenset(DeviceOwner)
_NAMED: Final = 5
"""Number of hosts that an error names."""


def ha_router_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the errors of all highly available routers, and of ports of any router."""
    routers, ports = _routers_and_ports(gathered, resources)
    replicated = {id: each for id, each in routers.items() if each[1].ha}
    highly_available = {id: each for id, each in replicated.items() if not each[1].distributed}
    unknown = [each for each in ports if _has_unknown_owner(each[1])]
    of_ha = [e for e in ports if e[2] in highly_available and not _has_unknown_owner(e[1])]
    errors = [
        *_unattached_errors(gathered, resources),
        *_owner_errors(unknown),
        *_distributed_errors(replicated),
        *_vrid_errors(highly_available, of_ha),
        *_host_errors(of_ha),
        *_ha_port_errors(of_ha),
        *_ha_network_errors(of_ha, resources),
        *_ha_subnet_errors(of_ha, resources),
        *_prefix_errors(highly_available, of_ha, resources),
    ]
    yield from errors or _missing_errors(highly_available, of_ha, assigned_hosts(gathered))


def plain_router_warnings(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the routers that are described as highly available, without being so."""
    routers, ports = _routers_and_ports(gathered, resources)
    plain = {id for id, (_, router) in routers.items() if not (router.ha or router.distributed)}
    advice = "or state ha: true and a vrid at the router"
    for entry, port, id in ports:
        if id in plain and _is_ha_port(port):
            problem = "is an HA port, and its router is not highly available"
            yield entry.diagnostic("", f"{problem}; remove it, {advice}")
        elif id in plain and port.binding.hosts and is_router_attachment(port.device_owner):
            problem = "the router is not highly available, so its ports are on one host"
            yield entry.diagnostic("binding:hosts", f"{problem}; state host instead, {advice}")
    for id, assigned in assigned_hosts(gathered).items():
        (host, first), *others = assigned.items()
        for _, entry in others if id in plain else ():
            problem = f"the router is not highly available, and on {host} by {_location(first)}"
            yield entry.diagnostic("", f"{problem}; remove one of the assignments, {advice}")


def ha_router_warnings(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the hosts that ports of a highly available router are on, and the router is not."""
    routers, ports = _routers_and_ports(gathered, resources)
    assigned = assigned_hosts(gathered)
    for entry, port, id in ports:
        _, router = routers[id]
        for host in sorted(port.binding.all_hosts - assigned.get(id, {}).keys())[:_NAMED]:
            if router.ha:
                problem = f"{host} has no assignment of the router, so it takes no part in it"
                advice = f"add {{service: l3, host: {host}, router: {router.name or id}}}"
                field = "binding:hosts" if port.binding.hosts else "binding:host_id"
                yield entry.diagnostic(field, f"{problem}; {advice}, or remove the host here")


def _routers_and_ports(gathered: Gathered, resources: Resources) -> tuple[Routers, PortsOfRouters]:
    """Return the routers of the files, and their ports."""
    routers: dict[RouterId, tuple[FileEntry, Router]] = {}
    ports: list[tuple[FileEntry, Port, RouterId]] = []
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Router() as router:
                routers[router.id] = entry, router
            case Port() as port if (router_id := as_id(port.device_id)) is not None:
                ports.append((entry, port, RouterId(router_id)))
    return routers, [each for each in ports if each[2] in routers]


def _unattached_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    for key, entry in gathered.entries.items():
        port = resources.get(key)
        if isinstance(port, Port) and _is_ha_port(port) and as_id(port.device_id) is None:
            yield entry.diagnostic("", "an HA port is the port of a router; state router")


def assigned_hosts(gathered: Gathered) -> AssignedHosts:
    """Return the hosts that each router is assigned to, with the assignments."""
    hosts: dict[RouterId, dict[str, FileEntry]] = {}
    for entry in gathered.assignments:
        router = as_id(entry.body.get("router_id"))
        if router is not None and entry.body["service"] == Service.L3:
            hosts.setdefault(RouterId(router), {})[entry.body["host"]] = entry
    return hosts


def _owner_errors(ports: PortsOfRouters) -> Iterator[Diagnostic]:
    for entry, port, _ in ports:
        problem = f"{port.device_owner!r} is no device owner of a port of a router"
        advice = f"remove it, or state {DeviceOwner.ROUTER_HA_INTERFACE} for an HA port"
        yield entry.diagnostic("device_owner", f"{problem}; {advice}")


def _distributed_errors(routers: Routers) -> Iterator[Diagnostic]:
    for entry, router in routers.values():
        if router.distributed:
            problem = "a router of a file is highly available or distributed, not both"
            advice = "remove distributed or ha, or use netfw-server, which has such routers"
            yield entry.diagnostic("distributed", f"{problem}; {advice}")


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


def _has_own_host(port: Port) -> bool:
    """Return whether the active host of a port, if one is stated, is one of its hosts."""
    return not port.binding.host or port.binding.host in port.binding.hosts


def _host_errors(ports: PortsOfRouters) -> Iterator[Diagnostic]:
    seen: dict[tuple[RouterId, str], FileEntry] = {}
    for entry, port, router in ports:
        if is_router_attachment(port.device_owner) and not port.binding.hosts:
            problem = "a port of a highly available router is on all its hosts"
            yield entry.diagnostic("", f"{problem}; state hosts, those that the router is on")
        elif is_router_attachment(port.device_owner) and not _has_own_host(port):
            problem = f"{port.binding.host} is not one of hosts, which the port is on"
            yield entry.diagnostic("binding:host_id", f"{problem}; remove host")
        elif _is_ha_port(port) and port.binding.hosts:
            problem = "an HA port is on one host"
            yield entry.diagnostic("binding:hosts", f"{problem}; state host instead")
        elif _is_ha_port(port) and not port.binding.host:
            yield entry.diagnostic("", "an HA port is on one host; state host")
        elif _is_ha_port(port):
            other = seen.setdefault((router, port.binding.host), entry)
            if other is not entry:
                problem = f"{port.binding.host} has an HA port of the router: {other.path}"
                advice = "remove one of them, or state another host"
                yield entry.diagnostic("binding:host_id", f"{problem} in {other.file}; {advice}")


def _ha_port_errors(ports: PortsOfRouters) -> Iterator[Diagnostic]:
    """Yield the errors of networks and addresses by which the hosts of a router do not meet."""
    networks: dict[RouterId, tuple[NetworkId, FileEntry]] = {}
    users: dict[tuple[NetworkId, IpAddress], FileEntry] = {}
    for entry, port, router in ports:
        if not _is_ha_port(port):
            continue
        network, other = networks.setdefault(router, (port.network_id, entry))
        if network != port.network_id:
            problem = f"is another one than that of {_location(other)}"
            advice = "the HA ports of a router are on one network; state the same one"
            yield entry.diagnostic("network_id", f"{problem}; {advice}")
        if not port.fixed_ips:
            yield entry.diagnostic("", "an HA port has an address; state fixed_ips")
        elif len(port.fixed_ips) > 1:
            problem = "an HA port has one address, by which the hosts find each other"
            yield entry.diagnostic("fixed_ips", f"{problem}; remove the others")
        for at, fixed in enumerate(port.fixed_ips):
            user = users.setdefault((port.network_id, fixed.address), entry)
            if user is not entry:
                problem = f"{fixed.address} is the address of {_location(user)}, an HA port too"
                yield entry.diagnostic(f"fixed_ips[{at}]", f"{problem}; state another one")


def _ha_network_errors(ports: PortsOfRouters, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the first HA port of each router on a network that no other host is on."""
    first = {id: (entry, port) for entry, port, id in reversed(ports) if _is_ha_port(port)}
    for entry, port in first.values():
        network = resources.get(Ref(Kind.NETWORK, port.network_id))
        if isinstance(network, Network) and any(
            each.network_type is NetworkType.LOCAL for each in network.segments
        ):
            problem = "is of type local, so that the hosts of the router do not meet on it"
            yield entry.diagnostic("network_id", f"{problem}; state a network of another type")


def _ha_subnet_errors(ports: PortsOfRouters, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the HA ports whose addresses keepalived cannot use."""
    for entry, port, _ in ports:
        if not _is_ha_port(port):
            continue
        if port.fixed_ips and all(each.address.version == 6 for each in port.fixed_ips):
            yield entry.diagnostic("fixed_ips", "VRRP needs an IPv4 address; state one")
        for at, subnet in _subnets_of(port, resources):
            if subnet.cidr.version == 4 and subnet.cidr.overlaps(HA_MARKERS):
                use = "by which hosts mark the routers that are active there"
                problem = f"{subnet.cidr} overlaps {HA_MARKERS}, {use}; state another subnet"
                yield entry.diagnostic(f"fixed_ips[{at}]", problem)


def _missing_errors(
    routers: Routers, ports: PortsOfRouters, hosts: AssignedHosts
) -> Iterator[Diagnostic]:
    """Yield the hosts of routers that a port of the router is not on."""
    with_ha_port = {(id, port.binding.host) for _, port, id in ports if _is_ha_port(port)}
    for id in routers:
        for host, entry in hosts.get(id, {}).items():
            if (id, host) not in with_ha_port:
                problem = f"the router has no HA port on {host}"
                owner = f"device_owner: {DeviceOwner.ROUTER_HA_INTERFACE}"
                advice = f"add a port on its HA network with router, {owner} and host: {host}"
                yield entry.diagnostic("", f"{problem}; {advice}")
    for entry, port, id in ports:
        missing = hosts.get(id, {}).keys() - port.binding.hosts
        if is_router_attachment(port.device_owner) and missing:
            named = ", ".join(sorted(missing)[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
            problem = f"the router is on {named} too"
            yield entry.diagnostic("binding:hosts", f"{problem}; state all hosts of the router")


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


def _location(entry: FileEntry) -> str:
    return f"{entry.path} in {entry.file}"


def _has_unknown_owner(port: Port) -> bool:
    return is_trusted(port.device_owner) and port.device_owner not in _OWNERS


def _is_ha_port(port: Port) -> bool:
    return port.device_owner == DeviceOwner.ROUTER_HA_INTERFACE
