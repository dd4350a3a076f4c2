"""Operations on the network of a namespace: frozen values that read like ``ip`` commands.

Names that the kernel, a path or a file could misread are refused when an operation that adds or
changes something is constructed: before anything is executed.  Removals accept every name, since
other programs add devices, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen

from netfw.linux.ip.sysctl_names import path_of
from netfw.linux.ip.text import address_text, neighbour_text, route_text, rule_text
from netfw.linux.ip.values import Address, IpRoute, IpRule, Neighbour
from netfw.model.values.address import Mac
from netfw.model.values.device_names import check_device_name, check_namespace_name

_KIND = re.compile(r"[a-z0-9_-]+")
_About = Address | IpRoute | IpRule | Neighbour


def _device(_instance: object, _attribute: Attribute[Any], name: str | None) -> None:
    if name is not None:
        check_device_name(name)


def _devices_of(_instance: object, _attribute: Attribute[Any], value: _About) -> None:
    for name in _devices(value):
        check_device_name(name)


def _addable(instance: object, attribute: Attribute[Any], route: IpRoute) -> None:
    _devices_of(instance, attribute, route)
    if route.destination.version == 6 and route.metric == 0:
        raise ValueError(f"{route.destination}: IPv6 has no metric 0; leave it out for 1024")


def _parameter(_instance: object, _attribute: Attribute[Any], name: str) -> None:
    path_of(name)


def _kind(_instance: object, _attribute: Attribute[Any], kind: str) -> None:
    if not _KIND.fullmatch(kind):
        raise ValueError(f"not a kind of device: {kind!r}")


def _namespace(_instance: object, _attribute: Attribute[Any], value: str | Path | None) -> None:
    if isinstance(value, str):
        check_namespace_name(value)


@frozen
class AddLink:
    """Add a device that needs only a name: ``bridge``, or ``dummy`` where the kernel has it."""

    name: str = field(validator=_device)
    kind: str = field(validator=_kind)

    @property
    def text(self) -> str:
        return f"ip link add {self.name} type {self.kind}"


@frozen
class AddLinuxBridge:
    """Add a bridge that forwards at once and floods multicast, as a cable does."""

    name: str = field(validator=_device)

    @property
    def text(self) -> str:
        return f"ip link add {self.name} type bridge forward_delay 0 mcast_snooping 0"


@frozen(kw_only=True)
class AddVeth:
    """Add a veth pair, the peer optionally within another namespace."""

    name: str = field(validator=_device)
    peer: str = field(validator=_device)
    peer_namespace: str | Path | None = field(default=None, validator=_namespace)

    @property
    def text(self) -> str:
        where = f" netns {self.peer_namespace}" if self.peer_namespace is not None else ""
        return f"ip link add {self.name} type veth peer name {self.peer}{where}"


@frozen
class DelLink:
    name: str

    @property
    def text(self) -> str:
        return f"ip link delete {self.name}"


@frozen(kw_only=True)
class MoveLink:
    """Move a device into another namespace, where it is down and optionally renamed."""

    name: str = field(validator=_device)
    namespace: str | Path = field(validator=_namespace)
    new_name: str | None = field(default=None, validator=_device)

    @property
    def text(self) -> str:
        called = f" name {self.new_name}" if self.new_name is not None else ""
        return f"ip link set {self.name} netns {self.namespace}{called}"


@frozen
class RenameLink:
    """Rename a device; kernels before 6.2 require that it is down."""

    name: str = field(validator=_device)
    new_name: str = field(validator=_device)

    @property
    def text(self) -> str:
        return f"ip link set {self.name} name {self.new_name}"


@frozen
class SetUp:
    name: str = field(validator=_device)
    up: bool = True

    @property
    def text(self) -> str:
        return f"ip link set {self.name} {'up' if self.up else 'down'}"


@frozen
class SetMtu:
    name: str = field(validator=_device)
    mtu: int

    @property
    def text(self) -> str:
        return f"ip link set {self.name} mtu {self.mtu}"


@frozen
class SetMac:
    name: str = field(validator=_device)
    mac: Mac = field(converter=Mac)

    @property
    def text(self) -> str:
        return f"ip link set {self.name} address {self.mac}"


@frozen
class SetMaster:
    """Make a device a port of a bridge, or (None) detach it."""

    name: str = field(validator=_device)
    master: str | None = field(validator=_device)

    @property
    def text(self) -> str:
        how = f"master {self.master}" if self.master is not None else "nomaster"
        return f"ip link set {self.name} {how}"


@frozen
class SetChecksumOffload:
    """Switch checksum offload; a userspace switch has no hardware that fills checksums in."""

    name: str = field(validator=_device)
    on: bool

    @property
    def text(self) -> str:
        return f"ethtool -K {self.name} tx {'on' if self.on else 'off'}"


@frozen
class AddAddress:
    """Add an address to a device; with *replace* a present one is changed and made permanent."""

    address: Address = field(validator=_devices_of)
    replace: bool = False

    @property
    def text(self) -> str:
        verb = "replace" if self.replace else "add"
        return f"ip address {verb} {address_text(self.address)}"


@frozen
class DelAddress:
    address: Address

    @property
    def text(self) -> str:
        return f"ip address delete {self.address.interface} dev {self.address.device}"


@frozen
class AddRoute:
    """Add a route; with *replace* one of the same key, if any, is replaced in the same step."""

    route: IpRoute = field(validator=_addable)
    replace: bool = False

    @property
    def text(self) -> str:
        return f"ip route {'replace' if self.replace else 'add'} {route_text(self.route)}"


@frozen
class DelRoute:
    route: IpRoute

    @property
    def text(self) -> str:
        return f"ip route delete {route_text(self.route)}"


@frozen
class AddRule:
    rule: IpRule = field(validator=_devices_of)

    @property
    def text(self) -> str:
        return f"ip -{self.rule.version} rule add {rule_text(self.rule)}"


@frozen
class DelRule:
    rule: IpRule

    @property
    def text(self) -> str:
        return f"ip -{self.rule.version} rule delete {rule_text(self.rule)}"


@frozen
class SetNeighbour:
    """Add a permanent neighbour, or change its MAC address."""

    neighbour: Neighbour = field(validator=_devices_of)

    @property
    def text(self) -> str:
        return f"ip neighbour replace {neighbour_text(self.neighbour)}"


@frozen
class DelNeighbour:
    neighbour: Neighbour

    @property
    def text(self) -> str:
        return f"ip neighbour delete {neighbour_text(self.neighbour)}"


@frozen
class SetSysctl:
    """Set a kernel parameter; for names see :mod:`netfw.linux.ip.sysctl_names`."""

    name: str = field(validator=_parameter)
    value: str

    @property
    def text(self) -> str:
        return f"sysctl -w {self.name}={self.value}"


Removal = DelLink | DelAddress | DelRoute | DelRule | DelNeighbour
"""Operations that succeed when there is nothing to remove."""

NetworkOperation = (
    AddLink
    | AddLinuxBridge
    | AddVeth
    | MoveLink
    | RenameLink
    | SetUp
    | SetMtu
    | SetMac
    | SetMaster
    | SetChecksumOffload
    | AddAddress
    | AddRoute
    | AddRule
    | SetNeighbour
    | SetSysctl
    | Removal
)


def needs_ipv6(operation: NetworkOperation) -> bool:
    """Return whether *operation* has no meaning on a host without IPv6."""
    match operation:
        case AddAddress(address) | DelAddress(address):
            return address.interface.version == 6
        case AddRoute(route) | DelRoute(route):
            return route.destination.version == 6
        case AddRule(rule) | DelRule(rule):
            return rule.version == 6
        case SetNeighbour(neighbour) | DelNeighbour(neighbour):
            return neighbour.address.version == 6
        case SetSysctl(name):
            return name.replace("/", ".").startswith("net.ipv6.")
        case _:
            return False


def devices(operation: NetworkOperation) -> frozenset[str]:
    """Return the devices of an operation on addresses, routes, rules or neighbours."""
    match operation:
        case AddAddress(value) | DelAddress(value):
            return _devices(value)
        case AddRoute(value) | DelRoute(value):
            return _devices(value)
        case AddRule(value) | DelRule(value):
            return _devices(value)
        case SetNeighbour(value) | DelNeighbour(value):
            return _devices(value)
        case _:
            return frozenset()


def _devices(value: _About) -> frozenset[str]:
    match value:
        case IpRoute(hops=hops):
            names = [hop.device for hop in hops]
        case IpRule(iif=iif, oif=oif):
            names = [iif, oif]
        case Address(device=device) | Neighbour(device=device):
            names = [device]
    return frozenset(name for name in names if name is not None)
