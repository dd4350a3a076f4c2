"""Faults of routers, floating IPs and port forwardings that no host could implement.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.device_owner import DeviceOwner, is_router_attachment
from netfw.model.values.ids import FloatingIpId, NetworkId, SubnetId
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.entries import FileEntry, Gathered
from netfw.state.file.ha_validation import ha_router_errors

Resources = Mapping[Ref, Resource]


@frozen
class _Interval:
    """Numbers that a part of an entry uses, both ends included."""

    first: int
    last: int
    position: int
    """Order in the files."""
    entry: FileEntry
    path: str
    text: str


def router_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the errors of all routers, floating IPs and port forwardings."""
    yield from _floating_ip_errors(gathered, resources)
    yield from _port_forwarding_errors(gathered, resources)
    yield from _interface_errors(gathered, resources)
    yield from ha_router_errors(gathered, resources)


def _floating_ip_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    subnets: dict[NetworkId, list[Subnet]] = defaultdict(list)
    users: dict[tuple[NetworkId, IpAddress], str] = {}
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Subnet() as subnet:
                subnets[subnet.network_id].append(subnet)
                if subnet.gateway is not None:
                    user = f"the gateway of {_location(entry)}"
                    users.setdefault((subnet.network_id, subnet.gateway), user)
            case Port(device_owner=owner) as port if owner != DeviceOwner.FLOATING_IP:
                for fixed in port.fixed_ips:
                    users[port.network_id, fixed.address] = f"an address of {_location(entry)}"
    for key, entry in gathered.entries.items():
        floating = resources.get(key)
        if not isinstance(floating, FloatingIp):
            continue
        own = f"the address of {_location(entry)}"
        user = users.setdefault((floating.network_id, floating.address), own)
        if user != own:
            problem = f"{floating.address} is also {user}; state an address that is free"
            yield entry.diagnostic("floating_ip_address", problem)
        elif isinstance(resources.get(Ref(Kind.NETWORK, floating.network_id)), Network):
            yield from _outside_errors(entry, floating, subnets[floating.network_id])


def _outside_errors(
    entry: FileEntry, floating: FloatingIp, subnets: Iterable[Subnet]
) -> Iterator[Diagnostic]:
    """Yield an error if the address is in none of *subnets*; the file may leave all of them out."""
    cidrs = [subnet.cidr for subnet in subnets]
    if cidrs and not any(floating.address in cidr for cidr in cidrs):
        listed = ", ".join(map(str, cidrs[:5])) + (", ..." if len(cidrs) > 5 else "")
        problem = f"{floating.address} is in no subnet of the external network ({listed})"
        yield entry.diagnostic("floating_ip_address", f"{problem}; state an address of one of them")


def _port_forwarding_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    used: dict[tuple[FloatingIpId, ForwardedProtocol], list[_Interval]] = defaultdict(list)
    for position, (key, entry) in enumerate(gathered.entries.items()):
        forwarding = resources.get(key)
        if isinstance(forwarding, PortForwarding):
            ports = forwarding.external_ports
            single = "external_port" in entry.body
            path = "external_port" if single else "external_port_range"
            text = f"{ports.first if single else ports} of {forwarding.protocol}"
            used[forwarding.floating_ip_id, forwarding.protocol].append(
                _Interval(ports.first, ports.last, position, entry, path, text)
            )
    for intervals in used.values():
        for one, other in _overlapping(intervals):
            problem = f"{one.text} overlaps {other.text} of {_location(other.entry)}"
            yield one.entry.diagnostic(one.path, f"{problem}; state other ports of the floating IP")


def _interface_errors(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield overlapping subnets of a router; two ports on one subnet are a warning elsewhere."""
    used: dict[tuple[str, int], dict[SubnetId, _Interval]] = defaultdict(dict)
    for position, (key, entry) in enumerate(gathered.entries.items()):
        port = resources.get(key)
        if not isinstance(port, Port) or not is_router_attachment(port.device_owner):
            continue
        for number, fixed in enumerate(port.fixed_ips):
            subnet = resources.get(Ref(Kind.SUBNET, fixed.subnet_id))
            if isinstance(subnet, Subnet):
                cidr, path = subnet.cidr, f"fixed_ips[{number}]"
                first, last = int(cidr.network_address), int(cidr.broadcast_address)
                interval = _Interval(first, last, position, entry, path, f"subnet {cidr}")
                used[port.device_id, cidr.version].setdefault(subnet.id, interval)
    for intervals in used.values():
        for one, other in _overlapping(intervals.values()):
            problem = f"{one.text} overlaps {other.text} of {_location(other.entry)}"
            advice = "remove a port, or give the router subnets that do not overlap"
            yield one.entry.diagnostic(one.path, f"{problem}, a port of the same router; {advice}")


def _overlapping(intervals: Iterable[_Interval]) -> Iterator[tuple[_Interval, _Interval]]:
    """Yield pairs of intervals that overlap, the later one of the files first."""
    furthest: _Interval | None = None
    for each in sorted(intervals, key=lambda it: (it.first, it.last, it.position)):
        if furthest is not None and each.first <= furthest.last:
            earlier, later = sorted((furthest, each), key=lambda it: it.position)
            yield later, earlier
        if furthest is None or each.last > furthest.last:
            furthest = each


def _location(entry: FileEntry) -> str:
    return f"{entry.path} in {entry.file}"
