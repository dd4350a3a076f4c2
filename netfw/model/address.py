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
