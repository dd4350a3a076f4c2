"""Rules, the sources of ports, and names, as nftables has them."""

import json
import socket
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.linux.conntrack.entry import ConntrackTuple
from netfw.linux.nftables.values import NftChain, NftRule
from netfw_drivers.nftables.plan.expressions import RETURN, address_text, match, payload
from netfw_drivers.nftables.plan.names import read_macs, read_remote, read_set, set_name
from netfw_drivers.nftables.plan.port_chains import read_source
from netfw_drivers.nftables.plan.rule_interpreter import RuleInterpreter
from tests.unit.backends.iptables.samples import (
    FRIENDS,
    GROUP,
    IN,
    OUT,
    V6,
    a_group,
    a_member,
    a_port,
    a_rule,
    port_id,
)
from tests.unit.backends.nftables.samples import TABLES, MirroredHost

pytestmark = pytest.mark.spec("FW-15")


def host_with(*states: dict) -> MirroredHost:
    host = MirroredHost({"tap1": "br1"})
    host.put(a_port(1, GROUP), *states)
    return host


def first_packet(source: str, protocol: int = 6, port: int | None = 80) -> ConntrackTuple:
    version = ip_address(source).version
    return ConntrackTuple(
        protocol=protocol,
        source=ip_address(source),
        destination=ip_address("10.0.0.1" if version == 4 else "fd00::1"),
        source_port=40000 if port else None,
        destination_port=port,
    )


@pytest.mark.parametrize(
    ("rule", "packet", "allowed"),
    [
        (a_rule(IN, protocol=6), first_packet("192.0.2.1"), True),
        (a_rule(IN, protocol=17), first_packet("192.0.2.1"), False),
        (a_rule(OUT, protocol=6), first_packet("192.0.2.1"), False),
        (a_rule(IN, V6, protocol=6), first_packet("192.0.2.1"), False),
        (a_rule(IN, V6), first_packet("2001:db8::1"), True),
        (a_rule(IN, protocol=6, port_min=79, port_max=80), first_packet("192.0.2.1"), True),
        (a_rule(IN, protocol=6, port_min=81, port_max=90), first_packet("192.0.2.1"), False),
        (a_rule(IN, protocol=17, port_min=80, port_max=80), first_packet("192.0.2.1"), False),
        (a_rule(IN, remote_prefix="192.0.2.0/24"), first_packet("192.0.2.1"), True),
        (a_rule(IN, remote_prefix="192.0.2.1/32"), first_packet("192.0.2.2"), False),
        (a_rule(IN, remote_group_id=FRIENDS), first_packet("10.9.0.1"), True),
        (a_rule(IN, remote_group_id=FRIENDS), first_packet("10.8.0.1"), False),
        (a_rule(IN, remote_group_id=FRIENDS), first_packet("10.8.0.2"), True),
        (a_rule(IN, protocol=1, port_min=8), first_packet("192.0.2.1", 1, None), True),
        (a_rule(IN, protocol=1, port_min=13), first_packet("192.0.2.1", 1, None), False),
    ],
)
def test_first_packets_are_evaluated_by_the_installed_rules(rule, packet, allowed) -> None:
    host = host_with(a_group(rule), a_member("10.9.0.0/16"), a_member("10.8.0.2/32"))
    interpreter = RuleInterpreter(ruleset=host.ruleset, tables=TABLES)
    assert interpreter.allows(GROUP, packet, IN) is allowed


FOREIGN = {
    "negated": [match(payload("ip", "saddr"), "192.0.2.1", op="!="), {"accept": None}],
    "anonymous set": [match(payload("tcp", "dport"), {"set": [80, 443]}), {"accept": None}],
    "address set": [match(payload("ip", "saddr"), {"set": ["192.0.2.1"]}), {"accept": None}],
    "ether set": [
        match(payload("ether", "saddr"), {"set": ["fa:16:3e:00:00:01"]}),
        {"accept": None},
    ],
    "missing set": [match(payload("ip", "saddr"), "@missing"), {"accept": None}],
    "raw payload": [match({"payload": {"base": "nh", "offset": 0, "len": 8}}, 1), {"accept": None}],
    "name": [match(payload("tcp", "dport"), "http"), {"accept": None}],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_rule_that_cannot_be_interpreted_allows_nothing(name: str) -> None:
    host = host_with(a_group())
    key = TABLES.filter(f"ingress4-{GROUP}")
    host.ruleset.chains[key] = NftChain((NftRule(json.dumps(FOREIGN[name])),))
    interpreter = RuleInterpreter(ruleset=host.ruleset, tables=TABLES)
    assert not interpreter.allows(GROUP, first_packet("192.0.2.1"), IN)


def test_answers_are_matched_with_both_ends_exchanged() -> None:
    web = a_rule(IN, protocol=6, port_min=80, port_max=80, remote_prefix="192.0.2.0/24")
    host = host_with(a_group(web))
    (answer,) = host.rules(f"ingress-answers4-{GROUP}")
    fields = [each["match"]["left"]["payload"]["field"] for each in json.loads(answer)[:2]]
    assert fields == ["daddr", "sport"]
    assert f"ingress-answers4-{GROUP}" in host.rules(f"egress4-{GROUP}")[0]


def test_stateless_groups_have_no_rule_on_state() -> None:
    host = host_with(a_group(a_rule(IN), stateful=False))
    assert "mark" not in str(host.rules(f"ingress4-{GROUP}"))
    assert TABLES.filter(f"ingress-answers4-{GROUP}") not in host.ruleset.chains


def test_neighbour_discovery_is_matched_only_where_its_header_is_the_first() -> None:
    rules = [json.loads(text) for text in host_with().rules(f"out6-{port_id(1)}")]
    about = [rule for rule in rules if '"base"' in json.dumps(rule)]
    assert len(about) == 2
    for rule in about:
        fields = {
            each["match"]["left"].get("payload", {}).get("field"): each["match"]["right"]
            for each in rule
            if "match" in each
        }
        assert (fields["nexthdr"], fields["hoplimit"]) == (58, 255)


def test_sources_are_read_back_from_the_chain() -> None:
    found = {read_source(text) for text in host_with().rules(f"frames-{port_id(1)}")}
    assert found - {None} == {ip_network("10.0.0.1/32"), ip_network("fd00::1/128")}


@given(st.ip_addresses(v=6))
def test_addresses_are_spelled_as_the_library_does(address) -> None:
    assert address_text(address) == socket.inet_ntop(socket.AF_INET6, address.packed)


@pytest.mark.parametrize(
    "text",
    ["::", "::1", "::ffff:192.0.2.1", "::192.0.2.1", "::1:0", "::ffff:0:0", "1::", "::1:0:0"],
)
def test_odd_addresses_are_spelled_as_the_library_does(text: str) -> None:
    address = ip_address(text)
    assert address_text(address) == socket.inet_ntop(socket.AF_INET6, address.packed)


@pytest.mark.parametrize("group", [GroupKey(GROUP), AddressGroupKey(GROUP)])  # type: ignore[arg-type]
def test_names_are_parsed_back(group) -> None:
    for remote in ((group, 4), (group, 6)):
        for length in (0, 24, 32, 128):
            if remote[1] == 6 or length <= 32:
                assert read_set(set_name(remote, length)) == (remote, length)


@pytest.mark.parametrize(
    "name", ["group4-x", "group5-", f"group4-{GROUP}/32", f"from4-{GROUP}", ""]
)
def test_foreign_names_are_not_ours(name: str) -> None:
    assert read_set(name) is None
    assert read_macs(name) is None
    assert read_remote(name) is None


def test_source_that_is_no_network_belongs_to_another_program():
    matches = [
        {"match": {"op": "==", "left": payload("ether", "saddr"), "right": "fa:16:3e:00:00:01"}},
        {"match": {"op": "==", "left": payload("ip", "saddr"), "right": "@allowed"}},
    ]
    assert read_source(json.dumps([*matches, RETURN])) is None
    matches[1]["match"]["right"] = "10.0.0.1"
    assert read_source(json.dumps([*matches, RETURN])) == ip_network("10.0.0.1/32")
