"""Addresses: MAC addresses as checked text, IP addresses from the standard library."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from attrs import Attribute

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpInterface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

T = TypeVar("T", bound=IpAddress | IpNetwork | IpInterface)
_KINDS = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)

_LINK_LOCAL = ipaddress.IPv6Network("fe80::/64")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


NO_MAC = "00:00:00:00:00:00"
"""The all-zero address, which devices without an address have."""


class Mac(str):
    """A unicast MAC address in lower-case colon form."""

    __slots__ = ()

    def __new__(cls, text: str) -> Mac:
        if type(text) is cls:
            return text
        canonical = text.lower().replace("-", ":")
        if not _MAC.fullmatch(canonical):
            raise ValueError(f"not a MAC address: {text!r}")
        if int(canonical[1], 16) & 1:
            raise ValueError(f"a multicast MAC cannot belong to a port: {text!r}")
        return super().__new__(cls, canonical)


def parse_mac(text: str) -> Mac | None:
    """Return the unicast MAC address that *text* is, or None."""
    try:
        return Mac(text)
    except ValueError:
        return None


def parse_ip(text: str) -> IpAddress | None:
    """Return the address that *text* is, or None."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def parse_network(text: str) -> IpNetwork | None:
    """Return the network that *text* is, or None."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def eui64(block: ipaddress.IPv6Network, mac: Mac) -> ipaddress.IPv6Address:
    """Return the address in *block* that a host with this *mac* derives (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return block.network_address + int.from_bytes(identifier, "big")


def link_local(mac: Mac) -> ipaddress.IPv6Address:
    """Return the link-local address that a device with this *mac* gives itself."""
    return eui64(_LINK_LOCAL, mac)


def derives(mac: Mac, address: IpAddress) -> bool:
    """Return whether a host with this *mac* derives *address*, in any block."""
    if not isinstance(address, ipaddress.IPv6Address):
        return False
    return address == eui64(ipaddress.IPv6Network((address, 64), strict=False), mac)


def link_local_mac(address: IpAddress) -> Mac | None:
    """Return the MAC address that a link-local *address* was derived from, or ``None``."""
    octets = address.packed
    if address not in _LINK_LOCAL or octets[11:13] != b"\xff\xfe" or octets[8] & 1:
        return None
    return Mac(bytes((octets[8] ^ 2, *octets[9:11], *octets[13:])).hex(":"))


def unscoped(value: T) -> T:
    """Return *value* if it has no scope (``fe80::1%eth0``).

    A scope is valid on one host only, and is free text: written to a file, it could inject a
    second line or a second option.

    :raises ValueError: it has one.
    """
    address = value.network_address if isinstance(value, ipaddress.IPv6Network) else value
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise ValueError(f"an address with a scope: {str(value)!r}; leave out what is after the %")
    return value


def no_scope(_: object, field: Attribute[Any], value: Any) -> None:
    """Validate that neither the field nor a member of it has a scope.

    :raises ValueError: one has.
    """
    values: Iterable[Any] = (value,) if isinstance(value, _KINDS) else value or ()
    for each in values:
        try:
            unscoped(each)
        except ValueError as exc:
            raise ValueError(f"{field.name}: {exc}") from exc


def as_address(value: str | IpAddress) -> IpAddress:
    """Return *value* as an address without a scope.

    :raises ValueError: it is none.
    """
    return unscoped(ipaddress.ip_address(value) if isinstance(value, str) else value)


def as_interface(value: str | IpInterface) -> IpInterface:
    """Return *value* as an address with the length of its prefix, without a scope.

    :raises ValueError: it is none.
    """
    return unscoped(ipaddress.ip_interface(value) if isinstance(value, str) else value)


def as_network(value: str | IpNetwork) -> IpNetwork:
    """Return *value* as a prefix; an address alone is a prefix of its full length.

    :raises ValueError: it is none, or has bits set outside the prefix.
    """
    if not isinstance(value, str):
        return unscoped(value)
    _, slash, length = value.partition("/")
    if "%" in value or (slash and not (length.isascii() and length.isdigit())):
        raise ValueError(f"not a prefix like 192.0.2.0/24 or 2001:db8::/64: {value!r}")
    return ipaddress.ip_network(value)


def maybe_address(value: str | IpAddress | None) -> IpAddress | None:
    """Apply :func:`as_address` to a value that may be ``None``."""
    return None if value is None else as_address(value)


def maybe_network(value: str | IpNetwork | None) -> IpNetwork | None:
    """Apply :func:`as_network` to a value that may be ``None``."""
    return None if value is None else as_network(value)


def all_addresses(values: Iterable[str | IpAddress]) -> tuple[IpAddress, ...]:
    """Apply :func:`as_address` to each value."""
    return tuple(map(as_address, values))


def maybe_mac(value: str | None) -> Mac | None:
    """Apply :class:`Mac` to a value that may be ``None``."""
    return None if value is None else Mac(value)
