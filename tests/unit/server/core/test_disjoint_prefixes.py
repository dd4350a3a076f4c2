"""Prefixes that do not overlap, as sets of addresses."""

from __future__ import annotations

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from netfw.server.core.disjoint_prefixes import DisjointPrefixes

SMALL = st.builds(
    lambda first, length: IPv4Network((first, length), False),
    st.integers(0x0A000000, 0x0A0000FF),
    st.integers(24, 32),
)
"""Prefixes within 10.0.0.0/24, so that each has few addresses."""


@given(st.lists(SMALL, max_size=20))
def test_overlaps_are_those_of_the_addresses(wanted: list[IPv4Network]) -> None:
    prefixes, taken = DisjointPrefixes(), dict[int, str]()
    for number, prefix in enumerate(wanted):
        addresses = set(map(int, prefix))
        found = prefixes.find_overlap(prefix)
        if not addresses & taken.keys():
            assert found is None
            prefixes.add(prefix, str(number))
            taken.update(dict.fromkeys(addresses, str(number)))
        else:
            assert found is not None
            other, owner = found
            assert addresses & set(map(int, other))
            assert {taken[address] for address in map(int, other)} == {owner}


@given(st.lists(SMALL, max_size=20), SMALL)
def test_overlaps_with_prefixes_that_overlap_already_are_found(
    stored: list[IPv4Network], wanted: IPv4Network
) -> None:
    prefixes = DisjointPrefixes()
    for prefix in stored:
        prefixes.add(prefix, str(prefix))
    found = prefixes.find_overlap(wanted)
    overlapping = [prefix for prefix in stored if prefix.overlaps(wanted)]
    assert (found is not None) == bool(overlapping)
    if found is not None:
        assert found[0] in overlapping
        assert found[1] == str(found[0])
