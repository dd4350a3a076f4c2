"""Completion and validation of subnet pools."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from netfw.errors import RequestError
from netfw.errors.subnet_pools import (
    EmptySubnetPoolPrefixList,
    IllegalSubnetPoolPrefixBounds,
    NetworkAddressScopeAffinityError,
    NetworkSubnetPoolAffinityError,
    PrefixVersionMismatch,
    SubnetPoolQuotaExceeded,
)
from netfw.model import AddressScopeId, Ipv6Mode, Subnet, SubnetPool, SubnetPoolId
from netfw.model.subnet import PREFIX_DELEGATION
from netfw.model.values.address import as_network
from netfw.server.subnet_pools.pool_validation import (
    check_affinity,
    check_pool_quota,
    complete_pool,
)

pytestmark = pytest.mark.spec("API-07")

ONE, TWO = SubnetPoolId(UUID(int=1)), SubnetPoolId(UUID(int=2))
SCOPE, OTHER_SCOPE = AddressScopeId(UUID(int=8)), AddressScopeId(UUID(int=9))


def pool(id: SubnetPoolId = ONE, prefix: str = "10.0.0.0/8", **more: Any) -> SubnetPool:
    lengths: Any = complete_pool({"prefixes": [prefix]})
    names = ("min_prefixlen", "default_prefixlen", "max_prefixlen")
    return SubnetPool(
        id=id, prefixes=(as_network(prefix),), **{name: lengths[name] for name in names}, **more
    )


def subnet(of: Any, cidr: str = "10.0.0.0/24") -> Subnet:
    more: Any = {"id": UUID(int=5), "network_id": UUID(int=6)}
    if of == PREFIX_DELEGATION:
        more |= {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    return Subnet(**more, cidr=as_network(cidr), subnet_pool_id=of)


@pytest.mark.parametrize(
    ("prefix", "expected"), [("10.0.0.0/8", (8, 8, 32)), ("fd00::/8", (64, 64, 128))]
)
def test_lengths_follow_from_the_ip_version(prefix: str, expected: tuple[int, int, int]) -> None:
    found = complete_pool({"prefixes": [prefix]})
    names = ("min_prefixlen", "default_prefixlen", "max_prefixlen")
    assert tuple(found[name] for name in names) == expected


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"prefixes": []}, EmptySubnetPoolPrefixList),
        ({"prefixes": ["10.0.0.0/8", "fd00::/8"]}, PrefixVersionMismatch),
        ({"prefixes": ["10.0.0.0/8"], "min_prefixlen": 33}, IllegalSubnetPoolPrefixBounds),
        ({"prefixes": ["10.0.0.0/8"], "max_prefixlen": 33}, IllegalSubnetPoolPrefixBounds),
        (
            {"prefixes": ["10.0.0.0/8"], "default_prefixlen": 20, "min_prefixlen": 24},
            IllegalSubnetPoolPrefixBounds,
        ),
    ],
)
def test_a_wrong_pool_is_refused(body: Any, error: type[RequestError]) -> None:
    with pytest.raises(error):
        complete_pool(body)


@pytest.mark.parametrize(
    ("prefix", "used", "length", "allowed"),
    [
        ("10.0.0.0/8", "10.0.0.0/25", 25, True),
        ("10.0.0.0/8", "10.0.0.0/24", 32, False),
        ("fd00::/8", "fd00::/57", 57, True),
        ("fd00::/8", "fd00::/57", 56, False),
        ("fd00::/8", "fd00::/56", 96, False),
    ],
)
def test_a_quota_counts_addresses_or_longer_ipv6_prefixes_in_parts(
    prefix: str, used: str, length: int, allowed: bool
) -> None:
    limited = pool(prefix=prefix, default_quota=256)
    if allowed:
        check_pool_quota(limited, [as_network(used)], length)
        return
    with pytest.raises(SubnetPoolQuotaExceeded):
        check_pool_quota(limited, [as_network(used)], length)


def test_a_network_has_subnets_of_one_pool_or_of_one_scope() -> None:
    scoped, sibling = pool(ONE, address_scope_id=SCOPE), pool(TWO, address_scope_id=SCOPE)
    scopes = {ONE: SCOPE}
    check_affinity(4, pool(TWO), [subnet(ONE, "fd00::/64")], {ONE: None})
    check_affinity(4, pool(ONE), [subnet(ONE)], {ONE: None})
    check_affinity(4, None, [subnet(None)], {})
    check_affinity(6, pool(TWO, "fd00::/8"), [subnet(PREFIX_DELEGATION, "fd00::/64")], {})
    check_affinity(4, scoped, [subnet(ONE)], scopes)
    check_affinity(4, sibling, [subnet(ONE)], scopes)
    for other, origin in ((pool(TWO), ONE), (pool(ONE), None), (None, ONE)):
        with pytest.raises(NetworkSubnetPoolAffinityError):
            check_affinity(4, other, [subnet(origin)], {})
    for other in (pool(TWO), pool(TWO, address_scope_id=OTHER_SCOPE)):
        with pytest.raises(NetworkAddressScopeAffinityError):
            check_affinity(4, other, [subnet(ONE)], scopes)
