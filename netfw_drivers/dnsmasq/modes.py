"""What a subnet's instances are given by this server: addresses, options or prefixes.  Pure.

Who announces an IPv6 prefix follows from ``ipv6_ra_mode``, as operators know it: a router does
where it is set.  Where it is not set, and instances make their addresses themselves, this server
announces the prefix, and says that it is no router; a router from outside may announce it, too.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from netfw.model.subnet import Ipv6Mode, Subnet

_SHORTEST = 64
"""dnsmasq serves no IPv6 prefix that is shorter."""


class Mode(enum.Enum):
    """How a subnet is served; the value is dnsmasq's word."""

    STATIC = "static"
    """Addresses, each for its own port."""
    STATELESS = "static "
    """Options; addresses come by a router's announcement."""
    RA_STATELESS = "ra-stateless"
    """Options, and the announcement."""
    RA_ONLY = "ra-only"
    """The announcement alone."""

    @property
    def word(self) -> str:
        return self.value.strip()

    @property
    def gives_addresses(self) -> bool:
        return self is Mode.STATIC

    @property
    def announces(self) -> bool:
        return self in (Mode.RA_STATELESS, Mode.RA_ONLY)


_BY_MODE = {
    (Ipv6Mode.STATEFUL, True): Mode.STATIC,
    (Ipv6Mode.STATEFUL, False): Mode.STATIC,
    (Ipv6Mode.STATELESS, True): Mode.RA_STATELESS,
    (Ipv6Mode.STATELESS, False): Mode.STATELESS,
    (Ipv6Mode.SLAAC, True): Mode.RA_ONLY,
    (None, True): Mode.STATIC,
}
"""By the address mode, and whether no router announces the prefix."""


def mode_of(subnet: Subnet) -> Mode | None:
    """How *subnet* is served; ``None``: not at all."""
    if not subnet.enable_dhcp:
        return None
    if subnet.ip_version == 4:
        return Mode.STATIC
    if subnet.cidr.prefixlen < _SHORTEST:
        return None
    return _BY_MODE.get((subnet.ipv6_address_mode, subnet.ipv6_ra_mode is None))


def served(subnets: tuple[Subnet, ...]) -> Iterator[tuple[Subnet, Mode]]:
    """The subnets that are served, each with its mode, always in the same order."""
    for subnet in sorted(subnets, key=lambda subnet: (subnet.ip_version, subnet.id)):
        mode = mode_of(subnet)
        if mode is not None:
            yield subnet, mode


def subnet_tag(subnet: Subnet) -> str:
    return f"subnet-{subnet.id}"
