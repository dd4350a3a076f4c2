"""Renderer of the configuration of keepalived, which decides by VRRP where a router is active.

Only names of devices, numbers, addresses and a checked password are rendered, each from a checked
value: no text of a user can become syntax.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Interface, ip_interface
from pathlib import Path
from typing import NamedTuple

from attrs import evolve, field, frozen

from netfw.errors import InvalidInput
from netfw.linux.ip.values import IpRoute, NextHop
from netfw.model.router import HA_MARKERS
from netfw.model.values.address import IpInterface
from netfw.model.values.device_names import check_device_name
from netfw_drivers.linux_router.config.conntrackd import notify_lines, path_problem

MAX_ADDRESSES = 16384
"""Limit of addresses of a router: keepalived reads all of them at each change."""
MAX_ROUTES = 4096
PASSWORD = re.compile(r"[A-Za-z0-9_.-]{1,8}")
"""Passwords that VRRP and the configuration can hold."""

_ADDRESS_BLOCK = re.compile(
    r"^    virtual_ipaddress_excluded \{\n(?P<lines>(?:        .*\n)*)    \}\n", re.MULTILINE
)

_ROUTE_ATTEMPT = re.compile(r"^.*: (?:Reloading|\(\w+\) Entering MASTER STATE)$", re.MULTILINE)
"""Lines of the log after which keepalived adds routes."""
_ROUTE_ERROR = re.compile(r"^.*: Netlink: error: (.*)\(\d+\), type=RTM_NEWROUTE\b.*$", re.MULTILINE)


class VirtualAddress(NamedTuple):
    """An address that the active instance has on a device."""

    device: str
    interface: IpInterface

    @property
    def is_single(self) -> bool:
        """Whether it has no network, such as the address of a floating IP."""
        return self.interface.network.prefixlen == self.interface.max_prefixlen


@frozen(kw_only=True)
class VrrpSettings:
    """Settings of VRRP that all routers of a host share.

    :raises InvalidInput: a password that VRRP does not have.
    """

    advert_int: int = 2
    """Seconds between two advertisements; after three without one, another instance takes over."""
    auth_type: str = "PASS"
    auth_password: str | None = field(default=None, repr=False)
    garp_master_delay: int = 1
    garp_master_repeat: int = 5
    garp_master_refresh: int = 180
    unicast: bool = False

    def __attrs_post_init__(self) -> None:
        if self.auth_password is not None and not PASSWORD.fullmatch(self.auth_password):
            why = "has 1 to 8 letters, digits, dots, dashes or underscores"
            raise InvalidInput({"auth_password": why})


@frozen(kw_only=True)
class VrrpInstance:
    """One instance of a highly available router.

    :raises InvalidInput: a name or address that cannot be, or more of them than fit.
    """

    vrid: int
    priority: int
    device: str
    """Name of the device on the HA network."""
    source: IPv4Address
    """Address of this instance on the HA network."""
    peers: tuple[IPv4Address, ...] = ()
    """Addresses of the others there."""
    addresses: tuple[VirtualAddress, ...] = ()
    routes: tuple[IpRoute, ...] = ()
    settings: VrrpSettings = field(factory=VrrpSettings)
    conntrackd: Path | None = None
    """Configuration of the conntrackd that gets a command at each change of the role."""

    def __attrs_post_init__(self) -> None:
        for name, limit, number in (
            ("addresses", MAX_ADDRESSES, len(self.addresses)),
            ("routes", MAX_ROUTES, len(self.routes)),
        ):
            if number > limit:
                raise InvalidInput({name: f"{number}: at most {limit}"})
        if self.conntrackd is not None and (why := path_problem(self.conntrackd)):
            raise InvalidInput({"conntrackd": why})
        for each in (self.source, *self.peers):
            if not isinstance(each, IPv4Address):
                raise InvalidInput({"HA network": f"{each!s}: VRRP needs IPv4 addresses there"})
        hops = (hop for route in self.routes for hop in route.hops)
        for device in {self.device, *(each.device for each in self.addresses), *map(_device, hops)}:
            _check_device(device)
        for address in self.addresses:
            if "%" in str(address.interface):
                raise InvalidInput({"address": f"{address.interface} names a device"})

    def restricted_to(self, devices: Collection[str], text: str) -> VrrpInstance:
        """Return what of the instance is on *devices*, and in the configuration *text* already."""
        there, routes = frozenset(parse_addresses(text)), configured_routes(text, self.routes)
        return evolve(
            self,
            addresses=tuple(
                each for each in self.addresses if each in there and each.device in devices
            ),
            routes=tuple(each for each in routes if all(_device(h) in devices for h in each.hops)),
        )


def marker(vrid: int) -> IPv4Interface:
    """Return the address that marks the active instance of a virtual router id."""
    return IPv4Interface((HA_MARKERS[vrid], HA_MARKERS.max_prefixlen))


def render_keepalived(instance: VrrpInstance) -> str:
    """Render the configuration file; equal values render to equal text."""
    settings = instance.settings
    scripts = () if instance.conntrackd is None else notify_lines(instance.conntrackd)
    lines = [
        *_global_definitions(instance),
        f"vrrp_instance VR_{instance.vrid} {{",
        "    state BACKUP",
        f"    interface {instance.device}",
        f"    virtual_router_id {instance.vrid}",
        f"    priority {instance.priority}",
        "    nopreempt",
        f"    advert_int {settings.advert_int}",
        f"    garp_master_delay {settings.garp_master_delay}",
        f"    garp_master_repeat {settings.garp_master_repeat}",
        f"    garp_master_refresh {settings.garp_master_refresh}",
        f"    garp_lower_prio_delay {settings.garp_master_delay}",
        f"    garp_lower_prio_repeat {settings.garp_master_repeat}",
        "    higher_prio_send_advert true",
        *_authentication(settings),
        *_peers(instance),
        *scripts,
        *_block("virtual_ipaddress", [f"{marker(instance.vrid)} dev {instance.device}"]),
    ]
    lines += _address_block(instance.addresses)
    lines += _block("virtual_routes", map(_route, instance.routes))
    return _join([*lines, "}"])


def parse_addresses(text: str) -> tuple[VirtualAddress, ...]:
    """Return the addresses of a configuration; what is no address is skipped."""
    block = _ADDRESS_BLOCK.search(text)
    words = (line.split() for line in block["lines"].splitlines()) if block else ()
    found = (_parse_address(each) for each in words)
    return tuple(each for each in found if each is not None)


def configured_routes(text: str, routes: Iterable[IpRoute]) -> tuple[IpRoute, ...]:
    """Return those of *routes* that a configuration has."""
    return routes_of_lines(frozenset(text.splitlines()), routes)


def routes_of_lines(lines: Collection[str], routes: Iterable[IpRoute]) -> tuple[IpRoute, ...]:
    """Return those of *routes* that are among the *lines* of a configuration."""
    return tuple(each for each in routes if each.hops and _entry(_route(each)) in lines)


def parse_route_errors(log: str) -> tuple[str, ...] | None:
    """Return why the kernel refused routes, one reason for each; None: none was tried yet.

    keepalived adds all routes that it does not have when it becomes active, and at each reload.
    """
    _, *attempts = _ROUTE_ATTEMPT.split(log)
    return tuple(_ROUTE_ERROR.findall(attempts[-1])) if attempts else None


def change_addresses(
    text: str, added: Iterable[VirtualAddress], removed: Collection[VirtualAddress]
) -> str:
    """Return a configuration that has addresses already with others; the rest stays as it is."""
    kept = (each for each in parse_addresses(text) if each not in removed)
    block = _join(_address_block([*kept, *added]))
    return _ADDRESS_BLOCK.sub(lambda _: block, text, count=1)


def _address_block(addresses: Iterable[VirtualAddress]) -> Iterator[str]:
    """Render the addresses: those with a network as they are, then the single ones in order."""
    every = dict.fromkeys(addresses)
    single = sorted((each for each in every if each.is_single), key=_order)
    lines = [f"{each.interface} dev {each.device}" for each in every if not each.is_single]
    lines += [f"{each.interface} dev {each.device}" for each in single]
    return _block("virtual_ipaddress_excluded", lines)


def _join(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _order(address: VirtualAddress) -> tuple[str, int, int]:
    return address.device, address.interface.version, int(address.interface)


def _authentication(settings: VrrpSettings) -> Iterator[str]:
    if settings.auth_password is not None:
        words = [f"auth_type {settings.auth_type}", f"auth_pass {settings.auth_password}"]
        yield from _block("authentication", words)


def _global_definitions(instance: VrrpInstance) -> Iterator[str]:
    """Render the name of the router: without one, each start would look up the host name by DNS,
    through the router and for seconds."""
    yield from ("global_defs {", f"    router_id VR_{instance.vrid}")
    if instance.conntrackd is not None:
        yield from ("    script_user root", "    enable_script_security")
    yield "}"


def _peers(instance: VrrpInstance) -> Iterator[str]:
    if instance.settings.unicast and instance.peers:
        yield f"    unicast_src_ip {instance.source}"
        yield from _block("unicast_peer", map(str, sorted(instance.peers)))
    else:
        yield f"    mcast_src_ip {instance.source}"


def _block(name: str, entries: Iterable[str]) -> Iterator[str]:
    yield f"    {name} {{"
    yield from map(_entry, entries)
    yield "    }"


def _entry(text: str) -> str:
    return f"        {text}"


def _route(route: IpRoute) -> str:
    """Render a route; keepalived has one with several next hops in another form."""
    if len(route.hops) > 1:
        hops = " ".join(f"nexthop {_hop(hop)}" for hop in route.hops)
        return f"{route.destination} {hops}"
    (hop,) = route.hops
    scope = " scope link" if hop.via is None and route.destination.version == 4 else ""
    return f"{route.destination} {_hop(hop)}{scope}"


def _hop(hop: NextHop) -> str:
    via = "" if hop.via is None else f"via {hop.via} "
    return f"{via}dev {_device(hop)}{' onlink' if hop.onlink else ''}"


def _device(hop: NextHop) -> str:
    if hop.device is None:
        raise InvalidInput({"route": f"the next hop {hop.via} has no device"})
    return hop.device


def _check_device(device: str) -> None:
    try:
        check_device_name(device)
    except ValueError as error:
        raise InvalidInput({"device": str(error)}) from error


def _parse_address(words: list[str]) -> VirtualAddress | None:
    try:
        interface, _, device = words
        return VirtualAddress(device, ip_interface(interface))
    except ValueError:
        return None
