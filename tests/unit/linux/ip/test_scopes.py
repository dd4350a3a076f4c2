"""Addresses of the kernel's tables have no scope: the device says where they are."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Interface, IPv6Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netfw.linux.ip.values import Address, IpRoute, IpRule, Neighbour, NextHop, addresses, route

SCOPES = st.text(min_size=1).filter(lambda text: not {"%", "/"} & set(text))
ADDRESSES = {
    "neighbour": lambda bad: Neighbour(device="a", address=bad, proxy=True),
    "gateway": lambda bad: NextHop(via=bad),
    "route": lambda bad: route("fd00::/8", via=bad),
    "source": lambda bad: IpRoute(destination="fd00::/8", source=bad),
    "address": lambda bad: Address(device="a", interface=IPv6Interface((bad, 64))),
    "addresses": lambda bad: addresses("a", [IPv6Interface((bad, 64))]),
}
NETWORKS = {
    "destination": lambda bad: IpRoute(destination=bad),
    "route": lambda bad: route(bad, device="a"),
    "from": lambda bad: IpRule(priority=1, source=bad),
    "to": lambda bad: IpRule(priority=1, destination=bad),
}


@pytest.mark.parametrize("make", ADDRESSES.values(), ids=ADDRESSES)
@settings(max_examples=20)
@given(scope=SCOPES)
def test_an_address_with_a_scope_is_refused(make, scope):
    make(IPv6Address("fe80::1"))
    with pytest.raises(ValueError, match="with a scope"):
        make(IPv6Address(f"fe80::1%{scope}"))


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@settings(max_examples=20)
@given(scope=SCOPES)
def test_a_network_with_a_scope_is_refused(make, scope):
    make(IPv6Network("fe80::/64"))
    with pytest.raises(ValueError, match="with a scope"):
        make(IPv6Network(f"fe80::%{scope}/64"))
