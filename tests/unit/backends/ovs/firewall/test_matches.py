"""Rules and members as matches."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.model.values.port_range import PortRange
from netfw_drivers.ovs.firewall.plan.matches import (
    MemberAddresses,
    RuleStage,
    address_at,
    masked,
    member_matches,
    rule_matches,
)
from tests.unit.backends.ovs.firewall.samples import IN, OUT, V4, V6, rule


def texts(clause_matches) -> set[str]:
    return {
        f"{clause_match.stage.table.number} {clause_match.match}" for clause_match in clause_matches
    }


@given(st.integers(1, 65535), st.integers(1, 65535))
def test_masked_ports_are_the_range_and_nothing_else(one, two):
    ports = PortRange(min(one, two), max(one, two))
    parts = list(masked(ports))
    assert len(parts) <= 30
    inside = {ports.first, ports.last, (ports.first + ports.last) // 2}
    for port in inside | {ports.first - 1, ports.last + 1, 0, 65535}:
        found = sum(port & mask == value for value, mask in parts)
        assert found == (port in ports)
    assert sum(0x10000 - mask for _, mask in parts) == len(ports)


def test_a_rule_matches_the_packet_that_opened_the_connection():
    web = rule(IN, protocol=6, port_min=80, port_max=81, remote_prefix="192.0.2.0/24")
    assert texts(rule_matches(web, stateful=True)) == {
        "82 ct_state=-inv+trk,ct_nw_src=192.0.2.0/24,ct_nw_proto=6,ct_tp_dst=0x50/0xfffe,ip",
        "82 ct_state=-inv+trk,ct_nw_src=192.0.2.0/24,ct_nw_proto=6,ip,nw_frag=later",
    }


def test_a_stateless_rule_matches_the_packet_itself():
    web = rule(OUT, protocol=6, port_min=80, port_max=81, remote_prefix="192.0.2.0/24")
    assert texts(rule_matches(web, stateful=False)) == {
        "72 tcp,nw_dst=192.0.2.0/24,tp_dst=0x50/0xfffe",
        "72 tcp,nw_dst=192.0.2.0/24,nw_frag=later",
    }


def test_everything_is_one_clause_and_all_addresses_are_none():
    assert texts(rule_matches(rule(OUT, V6), stateful=True)) == {"72 ct_state=-inv+trk,ipv6"}
    anywhere = rule(OUT, V6, remote_prefix="::/0")
    assert rule_matches(anywhere, stateful=True) == rule_matches(rule(OUT, V6), stateful=True)


@pytest.mark.parametrize("stateful", [True, False])
def test_icmp_in_a_rule_for_ipv6_is_that_of_ipv6(stateful):
    echo = rule(IN, V6, protocol=1, port_min=128, port_max=0)
    same = rule(IN, V6, protocol=58, port_min=128, port_max=0)
    assert rule_matches(echo, stateful=stateful) == rule_matches(same, stateful=stateful)
    assert len(rule_matches(echo, stateful=stateful)) == 2


def test_sctp_is_matched_in_the_packet_whichever_way_it_goes():
    found = texts(rule_matches(rule(IN, protocol=132, port_min=9, port_max=9), stateful=True))
    assert {text.partition("sctp,")[2] for text in found if "sctp" in text} == {
        "reg7=0x10000/0x10000,tp_dst=9",
        "reg7=0/0x10000,tp_src=9",
    }


@pytest.mark.parametrize("stage", RuleStage)
@pytest.mark.parametrize("prefix", ["10.0.0.0/8", "10.1.2.3", "fd00::/64", "fd00::1", "0.0.0.0/0"])
@pytest.mark.parametrize("mac", [None, "fa:16:3e:00:00:01"])
def test_a_member_is_known_again_by_its_matches(stage, prefix, mac):
    address = MemberAddresses(ip_network(prefix), mac)
    clause_matches = member_matches(stage, address)
    assert len(clause_matches) == (2 if mac and stage.stateful else 1)
    assert {address_at(clause_match) for clause_match in clause_matches} == {address}


def test_a_rule_with_a_protocol_is_no_member():
    for stateful in (True, False):
        for each in (rule(IN, protocol=6), rule(OUT, V6, protocol=17, port_min=1, port_max=9)):
            assert {
                address_at(clause_match) for clause_match in rule_matches(each, stateful=stateful)
            } == {None}


def test_a_rule_about_a_prefix_and_a_member_with_it_share_a_place():
    (clause_match,) = rule_matches(rule(IN, remote_prefix="192.0.2.1/32"), stateful=True)
    assert member_matches(RuleStage.INGRESS, MemberAddresses(ip_network("192.0.2.1"))) == (
        clause_match,
    )


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize("prefix", ["0.0.0.0/0", "::/0"])
def test_no_flow_has_two_clauses_of_one_conjunction(stateful, prefix):
    # The switch would count only one of them.
    everyone = MemberAddresses(ip_network(prefix))
    for direction in (IN, OUT):
        anything = rule(direction, V6 if ":" in prefix else V4)
        (clause_match,) = rule_matches(anything, stateful=stateful)
        assert clause_match not in member_matches(clause_match.stage, everyone)
