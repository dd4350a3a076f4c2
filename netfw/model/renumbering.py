"""Other prefixes for the same hosts of a subnet.  Pure."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

from attrs import evolve

from netfw.model.port import Port
from netfw.model.subnet import PROVISIONAL_PREFIX, AllocationPool, Subnet
from netfw.model.values.address import IpAddress


def renumber(subnet: Subnet, prefix: IPv6Network | None) -> Subnet:
    """Return *subnet* with a delegated *prefix*, or with the provisional one.

    Its gateway and pools keep their places within the prefix.
    """
    new = PROVISIONAL_PREFIX if prefix is None else prefix
    pools = (
        AllocationPool(start=_move(pool.start, subnet, new), end=_move(pool.end, subnet, new))
        for pool in subnet.allocation_pools
    )
    gateway = subnet.gateway
    return evolve(
        subnet,
        cidr=new,
        gateway=None if gateway is None else _move(gateway, subnet, new),
        allocation_pools=tuple(pools),
    )


def readdress(port: Port, before: Subnet, after: Subnet) -> Port:
    """Return *port* with the addresses that it has after its subnet was renumbered.

    An address that a host derives from its MAC address keeps the same place within the prefix.
    """
    assert isinstance(after.cidr, IPv6Network), "only prefixes of IPv6 are delegated"
    prefix = after.cidr
    fixed_ips = (
        evolve(each, address=_move(each.address, before, prefix))
        if each.subnet_id == before.id
        else each
        for each in port.fixed_ips
    )
    return evolve(port, fixed_ips=tuple(fixed_ips))


def _move(address: IpAddress, before: Subnet, prefix: IPv6Network) -> IpAddress:
    """Return the address at the same place in *prefix*; one outside the subnet stays."""
    if address not in before.cidr:
        return address
    place = int(address) - int(before.cidr.network_address)
    return IPv6Address(int(prefix.network_address) + place)
