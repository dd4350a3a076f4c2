"""Builders that take a short cut for frequent arguments: the same values, the same refusals."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw import flows as of

TERMS = [
    of.in_port(5), of.eth_src("fa:16:3e:00:00:01"), of.ipv4(), of.ip_proto(6), of.tcp_dst(80),
    of.ipv4_src("10.0.0.1"), of.register(5, 7, 0xFF), of.register(5, 0x700, 0xF00), of.ct_mark(3),
    of.metadata(1, 1), of.metadata(2, 2),
]  # fmt: skip


@given(st.ip_addresses(v=4))
def test_text_and_value_of_an_address_match_the_same(address: IPv4Address) -> None:
    assert of.ipv4_src(str(address)) == of.ipv4_src(address)


@pytest.mark.parametrize(
    "text", ["010.0.0.1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.-4", "1.2.3.", "١.1.1.1", ""]
)
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"IPv4|IPv6"):
        of.ipv4_src(text)


@given(st.permutations(TERMS))
def test_the_order_of_terms_does_not_matter(terms: list[of.Match]) -> None:
    # Terms of one field are merged wherever they stand.
    both = of.ANYTHING
    for term in terms:
        both &= term
    assert (both.get("reg5"), both.get("metadata")) == ((0x707, 0xFFF), (3, 3))
    assert [term[0] for term in both.terms] == sorted({term[0] for term in both.terms})


def test_ct_still_needs_ip() -> None:
    with pytest.raises(ValueError, match=r"ct\(zone=5\) needs a match on ipv4\(\) or ipv6\(\)"):
        of.Flow(table=0, priority=1, match=of.in_port(1), actions=(of.ct(zone=5),))
