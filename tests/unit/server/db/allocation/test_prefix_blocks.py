"""Free prefixes: splitting, merging, differences and overlaps."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.server.db.allocation.prefix_blocks import (
    buddies,
    containing,
    find_overlap,
    first_part,
    merge,
    remove_part,
    subtract,
)

pytestmark = pytest.mark.spec("API-07")

SMALL = st.builds(
    lambda first, length: IPv4Network((first, length), False),
    st.integers(0x0A000000, 0x0A0000FF),
    st.integers(24, 32),
)
"""Prefixes within 10.0.0.0/24, so that each has few addresses."""
SETS = st.lists(SMALL, max_size=6).map(lambda some: list(collapse_addresses(some)))


def nets(*texts: str) -> tuple[Any, ...]:
    return tuple(map(ip_network, texts))


def addresses(prefixes: Any) -> set[int]:
    return {int(address) for prefix in prefixes for address in prefix}


def test_a_prefix_is_taken_from_the_front_and_the_rest_stays_in_large_parts() -> None:
    free = IPv4Network("10.0.0.0/22")
    part = first_part(free, 24)
    assert part == IPv4Network("10.0.0.0/24")
    assert sorted(remove_part(free, part)) == sorted(nets("10.0.1.0/24", "10.0.2.0/23"))


def test_a_released_prefix_joins_its_free_buddies() -> None:
    free = set(nets("10.0.1.0/24", "10.0.2.0/23", "10.0.8.0/21"))
    merged, joined = merge(IPv4Network("10.0.0.0/24"), free)
    assert merged == IPv4Network("10.0.0.0/22")
    assert set(joined) == set(nets("10.0.1.0/24", "10.0.2.0/23"))


def test_the_whole_address_space_has_no_buddy() -> None:
    assert list(buddies(IPv6Network("::/0"))) == []
    assert [each.prefixlen for each in containing(IPv6Network("::/2"))] == [2, 1, 0]


@given(SMALL, st.integers(24, 32))
def test_what_is_split_merges_again(free: IPv4Network, length: int) -> None:
    part = first_part(free, max(length, free.prefixlen))
    rest = set() if part == free else set(remove_part(free, part))
    assert addresses([part, *rest]) == addresses([free])
    merged, joined = merge(part, rest)
    assert (merged, set(joined)) == (free, rest)


@given(SETS, SETS)
def test_differences_are_those_of_the_addresses(some: Any, others: Any) -> None:
    left = subtract(some, others)
    assert addresses(left) == addresses(some) - addresses(others)
    assert sum(each.num_addresses for each in left) == len(addresses(left))


@given(SETS, SETS)
def test_overlaps_are_those_of_the_addresses(some: Any, others: Any) -> None:
    found = find_overlap(some, others)
    common = addresses(some) & addresses(others)
    assert (found is None) == (not common)
    assert found is None or addresses([found]) <= common
