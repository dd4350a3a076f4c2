"""What a subnet's instances are given by this server: addresses, options or prefixes.  Pure.

Who announces an IPv6 prefix follows from ``ipv6_ra_mode``, as operators know it: where it is not
set, a router from outside does.  Where it is set, it is this cloud's business, and this server
announces the prefix, but says that it is no router itself: that is said by one of ours, if any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from netfw.model.subnet import Ipv6Mode, Subnet

_SHORTEST = 64
"""dnsmasq serves no IPv6 prefix that is shorter."""


@frozen
class Mode:
    """How a subnet is served."""

    word: str
    """dnsmasq's for it."""
    gives_addresses: bool = False
    """Each to its own port."""
    gives_options: bool = False
    """To instances that make their addresses themselves."""
    announces: bool = False
    """The prefix."""


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
"""By the mode of addresses, and whether there is one of announcements."""


def mode_of(subnet: Subnet) -> Mode | None:
    """How *subnet* is served; ``None``: not at all."""
    if not subnet.enable_dhcp:
        return None
    if subnet.ip_version == 4:
        return ADDRESSES
    if subnet.cidr.prefixlen < _SHORTEST:
        return None
    return _BY_MODES.get((subnet.ipv6_address_mode, subnet.ipv6_ra_mode is not None))


def unserved_reason(subnet: Subnet) -> str | None:
    """Why nobody gets an address on *subnet* from us; ``None``: they do, or should not."""
    wanted = subnet.ipv6_address_mode in (None, Ipv6Mode.STATEFUL) and subnet.enable_dhcp
    if not wanted or subnet.ip_version == 4 or subnet.cidr.prefixlen >= _SHORTEST:
        return None
    return f"{subnet.cidr} is not served: dnsmasq knows no prefix shorter than {_SHORTEST} bits"


def served(subnets: tuple[Subnet, ...]) -> Iterator[tuple[Subnet, Mode]]:
    """The subnets that are served, each with its mode, always in the same order."""
    for subnet in sorted(subnets, key=lambda subnet: (subnet.ip_version, subnet.id)):
        mode = mode_of(subnet)
        if mode is not None:
            yield subnet, mode


def subnet_tag(subnet: Subnet) -> str:
    return f"subnet-{subnet.id}"
