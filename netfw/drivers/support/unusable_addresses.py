"""Prefixes and gateways that no host can use.  Pure.

The server refuses such a subnet by the same functions as a DHCP driver leaves it out.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from netfw.model.values.address import IpAddress, IpNetwork

_MAPPED = IPv6Network("::ffff:0:0/96")
"""IPv4 addresses in the form of IPv6 ones."""


def prefix_problem(block: IpNetwork) -> str | None:
    """Return why hosts cannot have addresses of *block*, or ``None``."""
    if block.prefixlen == 0:
        return f"{block} is every address there is"
    if block.is_multicast or block.is_loopback:
        return f"{block} has no addresses for hosts"
    if isinstance(block, IPv6Network) and block.subnet_of(_MAPPED):
        return f"{block} holds IPv4 addresses as IPv6 ones, which no host can use"
    return None


def gateway_problem(gateway: IpAddress, block: IpNetwork) -> str | None:
    """Return why hosts of *block* cannot have a route by *gateway*, or ``None``."""
    if gateway.is_multicast or gateway.is_loopback:
        return f"{gateway} is no address of a router"
    if gateway.version == 6 and gateway.is_unspecified:
        return f"{gateway} is no address; leave the gateway out"
    if block.version == 4 and block.prefixlen < 31 and gateway == block.broadcast_address:
        return f"{gateway} is the broadcast address of {block}"
    return None
