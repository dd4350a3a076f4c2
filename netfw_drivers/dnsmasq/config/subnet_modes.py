"""Modes of subnets: whether this server gives addresses, options or prefixes.  Pure.

Who announces an IPv6 prefix follows from ``ipv6_ra_mode``, as operators know it: where it is not
set, a router from outside does.  Where it is set, it is this cloud's business, and this server
announces the prefix, but says that it is no router itself: that is said by one of ours, if any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from netfw.model.subnet import Ipv6Mode, Subnet

_SHORTEST = 64
"""Shortest IPv6 prefix that dnsmasq serves."""


@frozen
class Mode:
    """Mode in which a subnet is served."""

    word: str
    """Keyword of dnsmasq."""
    gives_addresses: bool = False
    """Gives each port its address."""
    gives_options: bool = False
    """Gives options to instances that configure their addresses themselves."""
    announces: bool = False
    """Sends router advertisements of the prefix."""


ADDRESSES = Mode("static", gives_addresses=True)
ADDRESSES_ANNOUNCED = Mode("static", gives_addresses=True, announces=True)
OPTIONS = Mode("static", gives_options=True)
OPTIONS_ANNOUNCED = Mode("ra-stateless", gives_options=True, announces=True)
ANNOUNCED = Mode("ra-only", announces=True)

_BY_MODES: Mapping[tuple[Ipv6Mode | None, bool], Mode] = {
    (None, False): ADDRESSES,
    (Ipv6Mode.STATEFUL, False): ADDRESSES,
    (Ipv6Mode.STATEFUL, True): ADDRESSES_ANNOUNCED,
    (Ipv6Mode.STATELESS, False): OPTIONS,
    (Ipv6Mode.STATELESS, True): OPTIONS_ANNOUNCED,
    (Ipv6Mode.SLAAC, True): ANNOUNCED,
}
"""By ``ipv6_address_mode`` and whether ``ipv6_ra_mode`` is set."""


def mode_of(subnet: Subnet) -> Mode | None:
    """Return the mode of *subnet*; ``None``: it is not served."""
    if not subnet.enable_dhcp:
        return None
    if subnet.ip_version == 4:
        return ADDRESSES
    if subnet.cidr.prefixlen < _SHORTEST:
        return None
    return _BY_MODES.get((subnet.ipv6_address_mode, subnet.ipv6_ra_mode is not None))


def unserved_reason(subnet: Subnet) -> str | None:
    """Return why *subnet* is not served although DHCP is enabled, or ``None``."""
    wanted = subnet.ipv6_address_mode in (None, Ipv6Mode.STATEFUL) and subnet.enable_dhcp
    if not wanted or subnet.ip_version == 4 or subnet.cidr.prefixlen >= _SHORTEST:
        return None
    return f"{subnet.cidr} is not served: dnsmasq knows no prefix shorter than {_SHORTEST} bits"


def served(subnets: tuple[Subnet, ...]) -> Iterator[tuple[Subnet, Mode]]:
    """Return the served subnets with their modes, in a stable order."""
    for subnet in sorted(subnets, key=lambda subnet: (subnet.ip_version, subnet.id)):
        mode = mode_of(subnet)
        if mode is not None:
            yield subnet, mode


def subnet_tag(subnet: Subnet) -> str:
    return f"subnet-{subnet.id}"
