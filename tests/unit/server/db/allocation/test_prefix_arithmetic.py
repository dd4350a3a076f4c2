"""Free prefixes: splitting, merging and differences."""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.server.db.allocation.prefix_arithmetic import (
    buddy,
    first_part,
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


@pytest.mark.parametrize(
    ("prefix", "other"),
    [
        ("10.0.0.0/24", "10.0.1.0/24"),
        ("10.0.1.0/24", "10.0.0.0/24"),
        ("0.0.0.0/1", "128.0.0.0/1"),
        ("fd00::1/128", "fd00::/128"),
    ],
)
def test_a_buddy_is_the_other_half(prefix: str, other: str) -> None:
    assert buddy(ip_network(prefix)) == ip_network(other)


@given(SMALL, st.integers(24, 32))
def test_what_is_split_merges_again(free: IPv4Network, length: int) -> None:
    part = first_part(free, max(length, free.prefixlen))
    rest = set(remove_part(free, part))
    assert addresses([part, *rest]) == addresses([free])
    while rest:
        rest.remove(buddy(part))
        part = part.supernet()
    assert part == free


@given(SETS, SETS)
def test_differences_are_those_of_the_addresses(some: Any, others: Any) -> None:
    left = subtract(some, others)
    assert addresses(left) == addresses(some) - addresses(others)
    assert sum(each.num_addresses for each in left) == len(addresses(left))
