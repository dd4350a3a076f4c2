"""What is written into rules and sets has no scope, whatever the scope says."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import InvalidInput
from netfw.linux.ipset import PortMember, SetKind, SetType
from netfw.linux.ipset.values import elements
from netfw.linux.iptables import DROP, IptablesRule, Not

SCOPES = st.text(min_size=1).filter(lambda text: not {"%", "/"} & set(text)) | st.sampled_from(
    ["lo\n-F foreign\n-A own-in -s ::1", "x -j ACCEPT", "\nflush victim-x", "eth0"]
)


@given(scope=SCOPES, side=st.sampled_from(["source", "destination"]), negated=st.booleans())
def test_no_rule_has_an_address_with_a_scope(scope, side, negated):
    for bad in (IPv6Address(f"fe80::1%{scope}"), IPv6Network(f"fe80::%{scope}/64")):
        with pytest.raises(InvalidInput, match="with a scope"):
            IptablesRule(target=DROP, **{side: Not(bad) if negated else bad})


@given(scope=SCOPES)
def test_no_set_has_a_member_with_a_scope(scope):
    address = IPv6Address(f"fe80::1%{scope}")
    for kind, member in (
        (SetType.ADDRESS, address),
        (SetType.NETWORK, address),
        (SetType.NETWORK, IPv6Network(f"fe80::1%{scope}/128")),
        (SetType.NETWORK, IPv6Network(f"fe80::%{scope}/64")),
        (SetType.ADDRESS_PORT, PortMember(address, "tcp", 1)),
        (SetType.NETWORK_PORT, PortMember(IPv6Network(f"fe80::%{scope}/64"), "tcp", 1)),
    ):
        with pytest.raises(InvalidInput, match="with a scope"):
            list(elements(SetKind(type=kind, family=6), [member]))
