"""Planning of the devices of a namespace, for services and routers.  Pure."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping

from attrs import evolve

from netfw.linux.ip.operations import DelAddress, NetworkOperation, SetSysctl
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import FoundAddress, Link
from netfw.linux.service_netns.steps import ChangeNetwork, Clear, DeleteNamespace, Step, Unplug
from netfw.linux.service_netns.values import (
    PAIR,
    ObservedNetns,
    PortDevice,
    SizedDevice,
    why_without_ipv6,
)
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId
from netfw.plan import Operation, Stage

LOOPBACK = "lo"
UNASKED = frozenset(
    {"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "sit0", "ip6tnl0", "ip6gre0", "ip6_vti0"}
)
"""Devices that the kernel puts into every namespace, once their module is loaded; they cannot be
deleted."""
MAKES_LINK_LOCAL = "addr_gen_mode"
"""Kernel parameter of a device: 0 for a link-local address from its MAC address."""


def make_stages(owner: Hashable, steps: Iterable[Step]) -> tuple[Stage, ...]:
    """Make a stage of each step, on behalf of *owner*."""
    return tuple(
        Stage((Operation(step.backend, step.text, frozenset({owner}), step),)) for step in steps
    )


def in_netns(netns: str, operations: Iterable[NetworkOperation]) -> Iterator[Step]:
    """Make a step of each operation in the namespace."""
    for operation in operations:
        yield ChangeNetwork(netns=netns, operation=operation)


def lacks_link_local(port: SizedDevice, settings: Mapping[str, str], found: ObservedNetns) -> bool:
    """Return whether it was removed, or its route: the kernel makes one only when a device comes
    up.

    :param settings: the desired kernel parameters; setting one of them makes the address, too.
    """
    if not _is_ready(found.links.get(port.device)) or why_without_ipv6(port, found):
        return False
    for setting in ("disable_ipv6", MAKES_LINK_LOCAL):
        name = device_parameter("ipv6", port.device, setting)
        if not found.sysctls.get(name) == settings.get(name) == "0":
            return False
    return all(entry.unrouted for entry in _link_local(port.device, found))


def renew_link_local(device: str, found: ObservedNetns) -> Iterator[NetworkOperation]:
    """Make the kernel assign a link-local address again; one without its route goes first."""
    yield from (DelAddress(entry.address) for entry in _link_local(device, found))
    name = device_parameter("ipv6", device, MAKES_LINK_LOCAL)
    yield from (SetSysctl(name, "1"), SetSysctl(name, "0"))


def _link_local(device: str, found: ObservedNetns) -> Iterator[FoundAddress]:
    """Yield the link-local address that the kernel assigned to a device, if it has one."""
    for entry in found.addresses:
        if entry.automatic and entry.address.device == device:
            yield entry


def _is_ready(link: Link | None) -> bool:
    """Return whether the kernel has finished setting the device up.

    A tap has its carrier from the beginning, and never a state; a veth pair gets both later.
    """
    if link is None or not (link.up and link.carrier):
        return False
    return link.state == "up" or (link.state == "unknown" and link.kind != PAIR)


def clear_devices(found: ObservedNetns, keep: Container[str]) -> Iterator[Step]:
    """Remove the devices that are lost, and those not to *keep*."""
    for name, link in found.links.items():
        if name in found.lost or (name not in keep and name not in {LOOPBACK, *UNASKED}):
            yield Clear(netns=found.netns, device=name, mac=link.mac, kind=link.kind)


def without_lost(found: ObservedNetns) -> ObservedNetns:
    """Return the observation without the lost devices, and without their addresses and routes."""
    if not found.lost:
        return found
    return evolve(
        found,
        links={name: link for name, link in found.links.items() if name not in found.lost},
        addresses=tuple(e for e in found.addresses if e.address.device not in found.lost),
        routes=tuple(
            route
            for route in found.routes
            if not any(hop.device in found.lost for hop in route.hops)
        ),
    )


def is_to_be_plugged(port: PortDevice, found: ObservedNetns) -> bool:
    """Return whether the device is missing, wrong, or lost its switch."""
    link = found.links.get(port.device)
    if link is None or (link.mac, link.mtu) != (port.mac, port.mtu):
        return True
    dead = link.up and not link.carrier
    return dead and port.port in (found.present or ())


def can_be_set(name: str, found: ObservedNetns) -> bool:
    """Return whether it can be set: IPv6 that is disabled in the whole namespace stays so."""
    switched_off = found.no_ipv6 is not None and name.endswith("disable_ipv6")
    return name in found.sysctls and not switched_off


def forgotten_address(operation: NetworkOperation, kept: Container[IpAddress]) -> IpAddress | None:
    """Return the address that the operation removes, unless it is kept otherwise."""
    if not isinstance(operation, DelAddress) or operation.address.interface.ip in kept:
        return None
    return operation.address.interface.ip


def remove_namespace(found: ObservedNetns, ports: Iterable[PortId]) -> Iterator[Step]:
    """Remove a namespace with its devices, and those of *ports* that are plugged elsewhere."""
    for port in ports:
        if found.present is None or port in found.present:
            yield Unplug(port)
    yield from clear_devices(found, keep=())
    if found.exists or found.has_remains:
        yield DeleteNamespace(found.netns)
