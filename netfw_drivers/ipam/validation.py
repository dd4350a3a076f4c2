"""Validation of subnets and of the addresses of their hosts.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, IpNetwork


def reserved_addresses(block: IpNetwork) -> dict[IpAddress, str]:
    """Return the addresses of *block* that no host can have, each with its role.

    A block of one or two addresses has none, as between two routers.
    """
    if block.max_prefixlen - block.prefixlen < 2:
        return {}
    if block.version == 6:
        return {block.network_address: "the address of all routers"}
    return {block.network_address: "the network's own", block.broadcast_address: "the broadcast"}


def subnet_problems(before: Subnet | None, after: Subnet) -> Iterator[tuple[str, str]]:
    """Yield problems of a new or changed subnet, by attribute."""
    if before is not None and before.cidr != after.cidr:
        yield "cidr", f"{before.cidr} cannot become {after.cidr}: addresses of it may be taken"
    reserved = reserved_addresses(after.cidr)
    if after.ip_version == 4 and after.gateway in reserved:
        yield "gateway_ip", f"{after.gateway} is {reserved[after.gateway]} of {after.cidr}"
    for at, pool in enumerate(after.allocation_pools):
        for address, what in reserved.items():
            if address in pool:
                yield f"allocation_pools[{at}]", f"contains {address}, {what} of {after.cidr}"


def address_problems(subnet: Subnet, address: IpAddress) -> Iterator[tuple[str, str]]:
    """Yield why *address* cannot be allocated in *subnet*, by attribute."""
    reserved = reserved_addresses(subnet.cidr)
    if address not in subnet.cidr:
        yield "ip_address", f"{address} is not in {subnet.cidr}"
    elif address in reserved and address != subnet.gateway:
        yield "ip_address", f"{address} is {reserved[address]} of {subnet.cidr}"
