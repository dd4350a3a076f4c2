"""Completion and validation of subnet pools, and of the subnets that a network may have.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from netfw.drivers.server.query import Body
from netfw.errors import InvalidInput
from netfw.errors.subnet_pools import (
    EmptySubnetPoolPrefixList,
    IllegalSubnetPoolPrefixBounds,
    MaxPrefixSubnetAllocationError,
    MinPrefixSubnetAllocationError,
    NetworkAddressScopeAffinityError,
    NetworkSubnetPoolAffinityError,
    PrefixVersionMismatch,
    SubnetPoolQuotaExceeded,
)
from netfw.model.subnet import PREFIX_DELEGATION, Subnet
from netfw.model.subnet_pool import ADDRESS_BITS, QUOTA_BITS, SubnetPool
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import AddressScopeId, SubnetPoolId
from netfw.model.wire import Json
from netfw.model.wire.scalars import CIDR

LEAST_LENGTH: Final = {4: 8, 6: 64}
"""Shortest prefixes that subnets get, unless the pool has its own limit."""
LENGTHS: Final = ("min_prefixlen", "default_prefixlen", "max_prefixlen")


def complete_pool(body: Body) -> dict[str, Json]:
    """Return *body* of a new pool with the prefix lengths that it leaves to the server.

    :raises InvalidInput: it has no prefix, those of two IP versions, or wrong lengths.
    """
    version = _version(body.get("prefixes"))
    shortest = body.get("min_prefixlen")
    found: dict[str, Json] = {**body}
    found["min_prefixlen"] = LEAST_LENGTH[version] if shortest is None else shortest
    if found.get("max_prefixlen") is None:
        found["max_prefixlen"] = ADDRESS_BITS[version]
    if found.get("default_prefixlen") is None:
        found["default_prefixlen"] = found["min_prefixlen"]
    check_pool(found)
    return found


def check_pool(body: Mapping[str, Any]) -> None:
    """Check the prefixes and the prefix lengths of a pool.

    :raises InvalidInput: naming the attribute.
    """
    version = _version(body.get("prefixes"))
    shortest, default, longest = (int(body[name]) for name in LENGTHS)
    if longest > ADDRESS_BITS[version]:
        text = f"{longest}: an IPv{version} prefix has at most {ADDRESS_BITS[version]} bits"
        raise IllegalSubnetPoolPrefixBounds({"max_prefixlen": text})
    if shortest > longest:
        text = f"{shortest} is more than max_prefixlen, which is {longest}"
        raise IllegalSubnetPoolPrefixBounds({"min_prefixlen": text})
    if not shortest <= default <= longest:
        text = f"{default} is outside min_prefixlen and max_prefixlen, {shortest} to {longest}"
        raise IllegalSubnetPoolPrefixBounds({"default_prefixlen": text})


def _version(prefixes: Any) -> int:
    if not prefixes:
        raise EmptySubnetPoolPrefixList({"prefixes": "a pool needs one prefix at least"})
    versions = {each.version for each in parse_prefixes(prefixes)}
    if len(versions) > 1:
        text = "are of both IP versions; make a pool for each"
        raise PrefixVersionMismatch({"prefixes": text})
    return versions.pop()


def parse_prefixes(prefixes: Sequence[str]) -> tuple[IpNetwork, ...]:
    """Parse *prefixes*.

    :raises InvalidInput: one of them is no prefix.
    """
    try:
        return tuple(CIDR.parse(each) for each in prefixes)
    except ValueError as exc:
        raise InvalidInput({"prefixes": str(exc)}) from exc


def check_length(pool: SubnetPool, length: int, name: str) -> None:
    """Refuse a prefix length that *pool* does not allow; *name*: the attribute of the request.

    :raises InvalidInput: naming the limit.
    """
    if length > pool.max_prefixlen:
        text = f"/{length} is longer than /{pool.max_prefixlen}, the longest of the subnet pool"
        raise MaxPrefixSubnetAllocationError({name: text})
    if length < pool.min_prefixlen:
        text = f"/{length} is shorter than /{pool.min_prefixlen}, the shortest of the subnet pool"
        raise MinPrefixSubnetAllocationError({name: text})


def check_pool_quota(pool: SubnetPool, used: Iterable[IpNetwork], length: int) -> None:
    """Refuse a prefix of *length* to a project that has the prefixes *used* of *pool*.

    :raises SubnetPoolQuotaExceeded: it would have more than the quota of the pool.
    """
    if pool.default_quota is None:
        return
    allowed = pool.default_quota << QUOTA_BITS[pool.ip_version]
    present = sum(each.num_addresses for each in used)
    if present + (1 << (ADDRESS_BITS[pool.ip_version] - length)) > allowed:
        unit = "addresses" if pool.ip_version == 4 else "/64 prefixes"
        raise SubnetPoolQuotaExceeded(
            f"with a /{length} the project would have more of subnet pool {pool.id} than its quota "
            f"of {pool.default_quota} {unit}"
        )


Scopes = Mapping[SubnetPoolId, AddressScopeId | None]
"""Address scopes by the pools that are in them."""


def check_affinity(
    version: int, pool: SubnetPool | None, others: Sequence[Subnet], scopes: Scopes
) -> None:
    """Refuse a subnet of *pool* on a network whose other subnets are not of the same origin.

    All subnets of a network and IP version are of one pool, or of pools of one address scope, or of
    none.  A delegated prefix is of no pool.

    :raises InvalidInput: the origins differ.
    """
    same = [each for each in others if each.ip_version == version and not each.delegated]
    scope = find_scope(same, version, scopes)
    if scope is not None and pool is not None and pool.address_scope_id == scope:
        return
    if scope is not None and pool is not None:
        text = f"the network's other IPv{version} subnets are in address scope {scope}"
        raise NetworkAddressScopeAffinityError({"subnetpool_id": text})
    wanted = None if pool is None else pool.id
    for each in same:
        if each.subnet_pool_id != wanted:
            of = each.subnet_pool_id or "no subnet pool"
            text = f"another IPv{version} subnet of the network, {each.id}, is of {of}"
            raise NetworkSubnetPoolAffinityError({"subnetpool_id": text})


def find_scope(subnets: Iterable[Subnet], version: int, scopes: Scopes) -> AddressScopeId | None:
    """Return the address scope of a network's *subnets* of one IP version."""
    for each in subnets:
        pool = pool_of(each)
        if each.ip_version == version and pool is not None and scopes.get(pool) is not None:
            return scopes[pool]
    return None


def pool_of(subnet: Subnet) -> SubnetPoolId | None:
    """Return the pool that *subnet* has its prefix from, if any; a provider's is none."""
    id = subnet.subnet_pool_id
    return None if id is None or id == PREFIX_DELEGATION or not isinstance(id, UUID) else id
