"""Subnets: the address blocks of a network."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from ipaddress import IPv6Network
from typing import Final, Literal

from attrs import field, frozen

from netfw.model.values.address import (
    IpAddress,
    IpNetwork,
    all_addresses,
    as_address,
    as_network,
    maybe_address,
)
from netfw.model.values.common_fields import Named
from netfw.model.values.ids import NetworkId, SegmentId, SubnetId, SubnetPoolId
from netfw.model.values.route import Route
from netfw.model.values.text_validation import check_token
from netfw.model.values.validation import Problem, Validated, each, repeated


class Ipv6Mode(enum.StrEnum):
    """The sources of an instance's IPv6 address and of router advertisements."""

    SLAAC = "slaac"
    STATEFUL = "dhcpv6-stateful"
    STATELESS = "dhcpv6-stateless"


PREFIX_DELEGATION: Final = "prefix_delegation"
"""The pool of subnets whose prefixes a provider delegates to their router."""
PROVISIONAL_PREFIX: Final = IPv6Network("::/64")
"""The prefix of such a subnet while none is delegated."""
_AUTOMATIC = (Ipv6Mode.SLAAC, Ipv6Mode.STATELESS)


@frozen(kw_only=True)
class AllocationPool(Validated):
    """Addresses that may be allocated, both ends included."""

    start: IpAddress = field(converter=as_address)
    end: IpAddress = field(converter=as_address)

    def _problems(self) -> Iterator[Problem]:
        if self.start.version != self.end.version:
            yield "end", f"{self.end} is of another family than {self.start}"
        elif int(self.start) > int(self.end):
            yield "end", f"{self.end} comes before {self.start}"

    def __contains__(self, address: IpAddress) -> bool:
        return address.version == self.start.version and (
            int(self.start) <= int(address) <= int(self.end)
        )


@frozen(kw_only=True)
class Subnet(Named):
    """A block of addresses of a network, and the configuration that its hosts receive."""

    id: SubnetId
    network_id: NetworkId
    cidr: IpNetwork = field(converter=as_network)
    gateway: IpAddress | None = field(default=None, converter=maybe_address)
    """May lie outside the block: it is then reached by an on-link route."""
    allocation_pools: tuple[AllocationPool, ...] = field(
        default=(), converter=tuple[AllocationPool, ...]
    )
    dns_nameservers: tuple[IpAddress, ...] = field(default=(), converter=all_addresses)
    host_routes: tuple[Route, ...] = field(default=(), converter=tuple[Route, ...])
    enable_dhcp: bool = True
    ipv6_ra_mode: Ipv6Mode | None = None
    ipv6_address_mode: Ipv6Mode | None = None
    segment_id: SegmentId | None = None
    subnet_pool_id: SubnetPoolId | Literal["prefix_delegation"] | None = None
    service_types: tuple[str, ...] = field(
        default=(), converter=tuple[str, ...], validator=each(check_token)
    )
    dns_publish_fixed_ip: bool = False

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return self.cidr.version

    @property
    def automatic(self) -> bool:
        """True if hosts there derive their addresses by themselves."""
        return self.ipv6_address_mode in _AUTOMATIC or self.ipv6_ra_mode in _AUTOMATIC

    @property
    def delegated(self) -> bool:
        """True if a provider delegates its prefix to a router."""
        return self.subnet_pool_id == PREFIX_DELEGATION

    @property
    def provisional(self) -> bool:
        """True if no prefix is delegated to it: no host can have an address there yet."""
        return self.delegated and self.cidr == PROVISIONAL_PREFIX

    def _problems(self) -> Iterator[Problem]:
        yield from self._family_problems()
        yield from self._pool_problems()
        yield from self._delegation_problems()
        yield from self._mode_problems()
        for at in repeated(self.host_routes):
            yield f"host_routes[{at}]", "is there twice"
        for at in repeated(self.dns_nameservers):
            yield f"dns_nameservers[{at}]", "is there twice"

    def _family_problems(self) -> Iterator[Problem]:
        addresses = {f"dns_nameservers[{n}]": a for n, a in enumerate(self.dns_nameservers)}
        addresses |= {
            f"host_routes[{n}].nexthop": r.nexthop for n, r in enumerate(self.host_routes)
        }
        if self.gateway is not None:
            addresses["gateway"] = self.gateway
        for name, address in addresses.items():
            if address.version != self.ip_version:
                yield name, f"{address} is of another family than {self.cidr}"

    def _pool_problems(self) -> Iterator[Problem]:
        block = self.cidr
        ordered = sorted(enumerate(self.allocation_pools), key=lambda item: int(item[1].start))
        before: AllocationPool | None = None
        for at, pool in ordered:
            name = f"allocation_pools[{at}]"
            if pool.start not in block or pool.end not in block:
                yield name, f"{pool.start} to {pool.end} is not within {block}"
            if before is not None and int(pool.start) <= int(before.end):
                yield name, f"overlaps {before.start} to {before.end}"
            if self.gateway is not None and self.gateway in pool:
                yield name, f"contains the gateway {self.gateway}"
            before = pool

    def _delegation_problems(self) -> Iterator[Problem]:
        if not self.delegated:
            return
        modes = (self.ipv6_ra_mode, self.ipv6_address_mode)
        if self.ip_version != 6 or self.cidr.prefixlen != PROVISIONAL_PREFIX.prefixlen:
            yield "cidr", f"a delegated prefix is one of IPv6 with 64 bits, not {self.cidr}"
        elif modes[0] not in _AUTOMATIC or modes[1] not in _AUTOMATIC:
            text = "hosts derive their addresses from it: both ipv6_ra_mode and ipv6_address_mode"
            yield "subnet_pool_id", f"with a delegated prefix, {text} are slaac or dhcpv6-stateless"

    def _mode_problems(self) -> Iterator[Problem]:
        modes = {"ipv6_ra_mode": self.ipv6_ra_mode, "ipv6_address_mode": self.ipv6_address_mode}
        given = {name: mode for name, mode in modes.items() if mode is not None}
        for name, mode in given.items():
            if self.ip_version != 6:
                yield name, f"{mode} on an IPv4 subnet"
            elif mode in _AUTOMATIC and self.cidr.prefixlen != 64:
                yield name, f"{mode} needs a prefix of 64 bits, not {self.cidr}"
        if len(set(given.values())) == 2:
            yield "ipv6_address_mode", f"{self.ipv6_address_mode} contradicts {self.ipv6_ra_mode}"
