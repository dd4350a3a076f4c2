"""Subnet pools, which subnets get their prefixes from, and address scopes, which pools share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from typing import Final

from attrs import field, frozen

from netfw.model.values.address import IpNetwork, as_network
from netfw.model.values.common_fields import Named
from netfw.model.values.ids import AddressScopeId, SubnetPoolId
from netfw.model.values.validation import Problem

MAX_PREFIXES: Final = 1000
"""Prefixes that a pool may have after compaction."""
ADDRESS_BITS: Final = {4: 32, 6: 128}
QUOTA_BITS: Final = {4: 0, 6: 64}
"""Bits of one unit of a pool's quota: an address in IPv4, a /64 in IPv6."""


def compact(prefixes: Iterable[str | IpNetwork]) -> tuple[IpNetwork, ...]:
    """Return the same addresses in as few prefixes as possible, in order."""
    networks = [as_network(each) for each in prefixes]
    fours = (each for each in networks if isinstance(each, IPv4Network))
    sixes = (each for each in networks if isinstance(each, IPv6Network))
    return (*collapse_addresses(fours), *collapse_addresses(sixes))


@frozen(kw_only=True)
class AddressScope(Named):
    """A set of pools whose addresses do not overlap, so that they are routed without NAT."""

    id: AddressScopeId
    ip_version: int = 4
    shared: bool = False

    def _problems(self) -> Iterator[Problem]:
        if self.ip_version not in ADDRESS_BITS:
            yield "ip_version", f"neither 4 nor 6: {self.ip_version}"


@frozen(kw_only=True)
class SubnetPool(Named):
    """Prefixes of one family, from which subnets get theirs."""

    id: SubnetPoolId
    prefixes: tuple[IpNetwork, ...] = field(converter=compact)
    min_prefixlen: int
    default_prefixlen: int
    max_prefixlen: int
    default_quota: int | None = None
    """What the subnets of each project may have of it, in IPv4 addresses or IPv6 /64 prefixes."""
    address_scope_id: AddressScopeId | None = None
    is_default: bool = False
    shared: bool = False

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return self.prefixes[0].version

    def _problems(self) -> Iterator[Problem]:
        versions = {each.version for each in self.prefixes}
        if len(versions) != 1:
            yield "prefixes", "a pool has prefixes of one IP version, and one prefix at least"
            return
        if len(self.prefixes) > MAX_PREFIXES:
            yield "prefixes", f"{len(self.prefixes)}, and {MAX_PREFIXES} are allowed"
        lengths = (0, self.min_prefixlen, self.default_prefixlen, self.max_prefixlen)
        names = ("min_prefixlen", "default_prefixlen", "max_prefixlen", "the IP version")
        bounds = (*lengths[1:], ADDRESS_BITS[self.ip_version])
        for shorter, longer, name in zip(lengths, bounds, names, strict=True):
            if shorter > longer:
                yield name if name in names[:3] else "max_prefixlen", f"{shorter} exceeds {longer}"
