"""Warnings about likely mistakes in a topology, which is accepted all the same.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from uuid import UUID

from netfw.errors import nearest
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import ExternalGateway, Router
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import DeviceOwner, is_router_attachment, is_router_port
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.distributed_validation import distributed_router_warnings
from netfw.state.file.entries import FileEntry, Gathered
from netfw.state.file.ha_validation import ha_router_warnings, plain_router_warnings
from netfw.state.file.name_resolution import as_id

Resources = Mapping[Ref, Resource]


def lint(gathered: Gathered, resources: Resources) -> tuple[Diagnostic, ...]:
    """Return all warnings."""
    warnings = [
        *gathered.warnings,
        *_unknown_hosts(gathered, resources),
        *_misplaced(gathered, resources),
        *_repeated(gathered, resources),
        *_unrouted(gathered, resources),
        *_connected_twice(gathered, resources),
        *ha_router_warnings(gathered, resources),
        *plain_router_warnings(gathered, resources),
        *distributed_router_warnings(gathered, resources),
        *_associated_and_forwarding(gathered, resources),
    ]
    return tuple(warnings)


def _ports(gathered: Gathered, resources: Resources) -> Iterator[tuple[FileEntry, Port]]:
    for key, entry in gathered.entries.items():
        port = resources.get(key)
        if isinstance(port, Port):
            yield entry, port


def _unknown_hosts(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    known = gathered.hosts
    named = []
    for entry, port in _ports(gathered, resources):
        named.append((entry, "binding:host_id", port.binding.host))
        named += [(entry, "binding:hosts", host) for host in sorted(port.binding.hosts)]
        prepared = sorted(port.binding.prepared_hosts)
        named += [(entry, "binding:prepared_hosts", host) for host in prepared]
    named += [(entry, "host", entry.body["host"]) for entry in gathered.assignments]
    for entry, path, host in named:
        if known and host and host not in known:
            yield entry.diagnostic(path, f"{host} is not among the hosts{nearest(host, known)}")


def _misplaced(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    for entry, port in _ports(gathered, resources):
        for position, fixed in enumerate(port.fixed_ips):
            subnet = resources.get(Ref(Kind.SUBNET, fixed.subnet_id))
            if not isinstance(subnet, Subnet):
                continue
            path = f"fixed_ips[{position}]"
            if subnet.network_id != port.network_id:
                yield entry.diagnostic(path, "its subnet is of another network")
            if fixed.address not in subnet.cidr:
                yield entry.diagnostic(path, f"{fixed.address} is not within {subnet.cidr}")


def _unrouted(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield what is meant to be at a router, and is at none."""
    with_gateway: set[str] = set()
    for entry, port in _ports(gathered, resources):
        if not is_router_port(port.device_owner):
            continue
        if as_id(port.device_id) is None:
            yield entry.diagnostic(
                "device_id", "is the id of no router; write router: and its name"
            )
        elif port.device_owner == DeviceOwner.ROUTER_GATEWAY:
            with_gateway.add(str(as_id(port.device_id)))
    for key, entry in gathered.entries.items():
        match resources.get(key):
            case Router(id=id, gateway=ExternalGateway()) if str(id) not in with_gateway:
                problem = "no port is this gateway: add one on the network, with router:"
                yield entry.diagnostic("external_gateway_info", problem)
            case FloatingIp(port_id=UUID(), fixed_address=None):
                yield entry.diagnostic(
                    "", "the address of the port is open: state fixed_ip_address"
                )
            case FloatingIp(port_id=UUID(), router_id=None):
                problem = "not one router connects the port with the network: state router"
                yield entry.diagnostic("", problem)
            case PortForwarding(floating_ip_id=id) if _is_unrouted(resources, id):
                yield entry.diagnostic("floatingip_id", "is at no router: state router there")
            case NdpProxy(router_id=id) if _is_disabled(resources, id):
                problem = "has no NDP proxies: state enable_ndp_proxy: true there"
                yield entry.diagnostic("router_id", problem)


def _is_disabled(resources: Resources, id: UUID) -> bool:
    router = resources.get(Ref(Kind.ROUTER, id))
    return isinstance(router, Router) and not router.enable_ndp_proxy


def _is_unrouted(resources: Resources, id: UUID) -> bool:
    floating = resources.get(Ref(Kind.FLOATING_IP, id))
    return isinstance(floating, FloatingIp) and floating.router_id is None


def _repeated(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    seen: dict[Hashable, FileEntry] = {}
    for entry, port in _ports(gathered, resources):
        addresses: list[tuple[str, Hashable]] = [("mac_address", port.mac)]
        addresses += [(f"fixed_ips[{n}]", ip.address) for n, ip in enumerate(port.fixed_ips)]
        for path, address in addresses:
            other = seen.setdefault((port.network_id, address), entry)
            if other is not entry:
                yield entry.diagnostic(path, f"{address} is that of {other.path} too")


def _connected_twice(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the ports that connect a router to a subnet to which another one connects it."""
    seen: dict[Hashable, FileEntry] = {}
    for entry, port in _ports(gathered, resources):
        for position, fixed in enumerate(port.fixed_ips):
            if is_router_attachment(port.device_owner):
                other = seen.setdefault((port.device_id, fixed.subnet_id), entry)
                if other is not entry:
                    problem = f"the router is on this subnet by {other.path} too: remove one"
                    yield entry.diagnostic(f"fixed_ips[{position}]", problem)


def _associated_and_forwarding(gathered: Gathered, resources: Resources) -> Iterator[Diagnostic]:
    """Yield the port forwardings that no host implements."""
    for key, entry in gathered.entries.items():
        forwarding = resources.get(key)
        if not isinstance(forwarding, PortForwarding):
            continue
        floating = resources.get(Ref(Kind.FLOATING_IP, forwarding.floating_ip_id))
        if isinstance(floating, FloatingIp) and floating.port_id is not None:
            text = "stands for a port, so that it forwards no single ports; remove its port_id"
            yield entry.diagnostic("floatingip_id", f"{floating.address} {text}")
