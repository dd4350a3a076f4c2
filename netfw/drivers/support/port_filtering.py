"""Whether a port is filtered, and the members that it contributes to groups.  Pure."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Network

from netfw.drivers.firewall import Member
from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.security_group import AddressGroup
from netfw.model.values.address import IpAddress, IpNetwork, Mac
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import AddressGroupId


def is_unfiltered(port: Port) -> bool:
    """Return whether anti-spoofing and security groups are off for *port*."""
    return not port.port_security or is_trusted(port.device_owner)


def members_of(resource: Resource | None) -> frozenset[Member]:
    """Return the members that a port or an address group contributes to groups."""
    match resource:
        case Port():
            prefixes: set[tuple[IpNetwork, Mac | None]]
            prefixes = {(host_prefix(fixed.address), None) for fixed in resource.fixed_ips}
            for pair in resource.allowed_address_pairs:
                mac = None if pair.prefix.prefixlen else pair.mac or resource.mac
                prefixes.add((pair.prefix, mac))
            groups = [GroupKey(id) for id in resource.security_groups]
            return frozenset(Member(g, prefix, mac) for g in groups for prefix, mac in prefixes)
        case AddressGroup():
            key = AddressGroupKey(AddressGroupId(resource.id))
            return frozenset(Member(key, prefix) for prefix in resource.addresses)
        case _:
            return frozenset()


def host_prefix(address: IpAddress) -> IpNetwork:
    """Return the prefix with *address* only."""
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), 32))
    return IPv6Network((int(address), 128))
