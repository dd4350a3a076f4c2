"""Connected routes, which the kernel adds together with addresses, and never again.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Final

from attrs import evolve

from netfw.linux.ip.values import PROTOCOL_KERNEL, Address, FoundAddress, IpRoute, Link

_THIS_HOST: Final = IPv4Network("0.0.0.0/8")
"""Networks in it have no connected route."""


def mark_unrouted(
    addresses: Iterable[FoundAddress], links: Mapping[str, Link], routes: Iterable[IpRoute]
) -> tuple[FoundAddress, ...]:
    """Return *addresses*, those marked whose connected route another program has removed.

    :param routes: those of the main table; they were read after the addresses.
    """
    connected = {
        (hop.device, route.destination)
        for route in routes
        if route.protocol == PROTOCOL_KERNEL
        for hop in route.hops
    }
    return tuple(
        evolve(entry, unrouted=True)
        if _has_connected_route(entry.address, links)
        and (entry.address.device, entry.address.network) not in connected
        else entry
        for entry in addresses
    )


def _has_connected_route(address: Address, links: Mapping[str, Link]) -> bool:
    """Return whether the kernel has a route for an address, on a device that can send."""
    link, network = links.get(address.device), address.network
    if link is None or not (link.up and link.carrier) or address.noprefixroute:
        return False
    if network.version == 6:
        return True
    return network.prefixlen < network.max_prefixlen and network.network_address not in _THIS_HOST
