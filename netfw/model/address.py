"""Addresses: MAC addresses as checked text, IP addresses from the standard library."""

from __future__ import annotations

import ipaddress
import re

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpInterface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


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
            raise ValueError(f"a multicast MAC can not belong to a port: {text!r}")
        return super().__new__(cls, canonical)


def as_address(value: str | IpAddress) -> IpAddress:
    """*value* as an address; text with a scope (``%eth0``) means nothing outside one host.

    :raises ValueError: it is none.
    """
    if not isinstance(value, str):
        return value
    if "%" in value:
        raise ValueError(f"an address with a scope: {value!r}")
    return ipaddress.ip_address(value)


def as_network(value: str | IpNetwork) -> IpNetwork:
    """*value* as a prefix; an address alone is a prefix of its full length.

    :raises ValueError: it is none, or has bits set outside the prefix.
    """
    if not isinstance(value, str):
        return value
    _, slash, length = value.partition("/")
    if "%" in value or (slash and not (length.isascii() and length.isdigit())):
        raise ValueError(f"not a prefix like 192.0.2.0/24 or 2001:db8::/64: {value!r}")
    return ipaddress.ip_network(value)


def maybe_address(value: str | IpAddress | None) -> IpAddress | None:
    """:func:`as_address`, where there may be none."""
    return None if value is None else as_address(value)


def maybe_network(value: str | IpNetwork | None) -> IpNetwork | None:
    """:func:`as_network`, where there may be none."""
    return None if value is None else as_network(value)


def maybe_mac(value: str | None) -> Mac | None:
    """:class:`Mac`, where there may be none."""
    return None if value is None else Mac(value)
