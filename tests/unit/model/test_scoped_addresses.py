"""Addresses with a scope: free text within a value that looks checked."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Interface, IPv6Network
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netfw.model import (
    AddressGroup,
    AddressPair,
    AllocationPool,
    DnsAssignment,
    FixedIp,
    FloatingIp,
    Route,
    SecurityGroupRule,
    Subnet,
)
from netfw.model.security_group import Direction, Ethertype
from netfw.model.values.address import as_address, as_interface, as_network, unscoped

ID = UUID(int=1)
FINE = IPv6Address("fe80::1")

ADDRESSES: dict[str, Callable[[IPv6Address], object]] = {
    "address": as_address,
    "fixed ip": lambda bad: FixedIp(subnet_id=ID, address=bad),
    "dns assignment": lambda bad: DnsAssignment(address=bad, hostname="a", fqdn="a."),
    "pool start": lambda bad: AllocationPool(start=bad, end=FINE),
    "pool end": lambda bad: AllocationPool(start=FINE, end=bad),
    "gateway": lambda bad: Subnet(id=ID, network_id=ID, cidr="fe80::/64", gateway=bad),
    "nameserver": lambda bad: Subnet(
        id=ID, network_id=ID, cidr="fe80::/64", dns_nameservers=(bad,)
    ),
    "nexthop": lambda bad: Route(destination="fd00::/8", nexthop=bad),
    "floating ip": lambda bad: FloatingIp(id=ID, network_id=ID, address=bad),
    "fixed address": lambda bad: FloatingIp(
        id=ID, network_id=ID, address=FINE, port_id=ID, fixed_address=bad
    ),
    "interface": lambda bad: as_interface(IPv6Interface((bad, 64))),
}
NETWORKS: dict[str, Callable[[IPv6Network], object]] = {
    "network": as_network,
    "pair": lambda bad: AddressPair(prefix=bad),
    "subnet": lambda bad: Subnet(id=ID, network_id=ID, cidr=bad),
    "destination": lambda bad: Route(destination=bad, nexthop=FINE),
    "remote prefix": lambda bad: SecurityGroupRule(
        id=ID,
        security_group_id=ID,
        direction=Direction.INGRESS,
        ethertype=Ethertype.IPV6,
        remote_prefix=bad,
    ),
    "address group": lambda bad: AddressGroup(id=ID, addresses={bad}),
}


@pytest.mark.parametrize("make", ADDRESSES.values(), ids=ADDRESSES)
@settings(max_examples=20)
@given(scope=st.text(min_size=1).filter(lambda text: not {"%", "/"} & set(text)))
def test_no_value_has_an_address_with_a_scope(make, scope):
    make(FINE)
    with pytest.raises(ValueError, match="with a scope"):
        make(IPv6Address(f"fe80::1%{scope}"))


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@settings(max_examples=20)
@given(scope=st.text(min_size=1).filter(lambda text: not {"%", "/"} & set(text)))
def test_no_value_has_a_network_with_a_scope(make, scope):
    make(IPv6Network("fe80::/64"))
    with pytest.raises(ValueError, match="with a scope"):
        make(IPv6Network(f"fe80::%{scope}/64"))


def test_an_address_without_a_scope_stays_what_it_is():
    assert unscoped(FINE) is FINE


@pytest.mark.parametrize("text", ["fe80::1%eth0", "fe80::1%\n"])
def test_text_with_a_scope_is_refused_like_a_value_with_one(text):
    for read in (as_address, as_interface):
        with pytest.raises(ValueError, match="with a scope"):
            read(text)
