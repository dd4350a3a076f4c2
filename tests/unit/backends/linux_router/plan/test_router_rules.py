"""Rules of routers."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.drivers.values.router_values import RouterState
from netfw.linux.iptables.chain import ChainKey, full_name
from netfw.linux.iptables.rule import Family
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER, extension_subchain
from netfw_drivers.linux_router.plan.router_rules import parse_snat_addresses
from tests.unit.backends.linux_router.samples import (
    CONTEXT,
    FIPS,
    GATEWAY,
    INSIDE,
    PORTS,
    QG,
    QR,
    ROUTER,
    SCOPES,
    STATE,
    found,
    lines,
    state,
    translation,
)


def chains(router: RouterState = STATE) -> dict[str, list[str]]:
    own = {FIPS[0]: translation()}
    return lines(dict(CONTEXT.desired_netns(ROUTER, router, found(), own).chains))


def forward_rule(*words: str, **values: Any) -> RouterRule:
    return RouterRule(table=RuleTable.FILTER, chain=RuleChain.FORWARD, words=words, **values)


@pytest.mark.spec("L3-23", "L3-24")
def test_floating_ips_are_translated_before_the_gateway() -> None:
    rules = chains()
    assert rules["4 nat postrouting"] == [
        "-m mark --mark 0x2/0x2 -j RETURN",
        f"! -o {QG} -m conntrack ! --ctstate DNAT -j RETURN",
        "-j router-float-snat",
        "-j router-snat",
    ]
    comment = f"-m comment --comment fip-{FIPS[0]}"
    assert rules["4 nat float-dnat"] == [
        f"-d 203.0.113.9/32 {comment} -j DNAT --to-destination 10.0.0.9"
    ]
    assert rules["4 nat float-snat"] == [
        f"-s 10.0.0.9/32 {comment} -j SNAT --to-source 203.0.113.9"
    ]
    assert rules["4 nat snat"] == ["-j SNAT --to-source 203.0.113.5"]


def test_source_addresses_are_those_of_rules_with_one_address() -> None:
    key = ChainKey(family=Family.IPV4, table="nat", name="snat")
    foreign = "-j SNAT --to-source 203.0.113.6-203.0.113.9"
    found = parse_snat_addresses({key: ("-j SNAT --to-source 203.0.113.5", foreign)})
    assert found == {ip_address("203.0.113.5")}


def test_without_snat_only_hairpins_are_translated() -> None:
    rules = chains(state(INSIDE, gateway=evolve(GATEWAY, snat=False)))
    hairpin = "-m conntrack --ctstate DNAT -j SNAT --to-source"
    assert rules["4 nat snat"] == [f"{hairpin} 203.0.113.5"]
    assert rules["6 nat snat"] == [f"{hairpin} 2001:db8::5"]


def test_without_a_gateway_nothing_is_translated() -> None:
    rules = chains(state(INSIDE, gateway=None))
    assert sorted(rules) == sorted(
        f"{family} {name}"
        for family in (4, 6)
        for name in ("mangle prerouting", "mangle input", "nat prerouting")
    )


@pytest.mark.spec("L3-28", "MD-03")
def test_only_metadata_requests_reach_the_proxy() -> None:
    rules = chains(evolve(STATE, metadata_port=9700))
    request = "-i qr-+ -p tcp -m tcp --dport 80"
    assert rules["4 mangle prerouting"][1] == (
        f"-d 169.254.169.254/32 {request} -j MARK --set-xmark 0x1/0x1"
    )
    assert rules["6 nat prerouting"][0] == (
        f"-d fe80::a9fe:a9fe/128 {request} -j REDIRECT --to-ports 9700"
    )
    assert rules["4 mangle input"] == [
        "-p tcp -m tcp --dport 9700 -m mark ! --mark 0x1/0x1 -j DROP"
    ]
    assert "4 mangle input" not in chains(evolve(STATE, metadata_port=None))


@pytest.mark.spec("L3-23")
def test_another_scope_is_left_by_translation_only() -> None:
    scopes = {4: SCOPES[0], 6: SCOPES[0]}
    outside = evolve(GATEWAY.port, scopes={4: SCOPES[1], 6: SCOPES[1]})
    inside = evolve(INSIDE, scopes=scopes)
    own, other = "0x4010000/0xffff0000", "0x4020000/0xffff0000"
    translated = "-m conntrack --ctstate SNAT,DNAT -j RETURN"
    rules = chains(state(inside, gateway=evolve(GATEWAY, port=outside)))
    assert rules["4 mangle scope"] == [translated, f"-o {QR} -m mark ! --mark {own} -j DROP"]
    assert rules["6 mangle scope"] == [
        translated,
        f"-o {QG} -j router-float-scope",
        f"-o {QR} -m mark ! --mark {own} -j DROP",
        f"-o {QG} -m mark ! --mark {other} -j DROP",
    ]
    rules = chains(state(inside, gateway=evolve(GATEWAY, port=outside, snat=False)))
    assert rules["4 mangle float-scope"] == [
        f"-s 10.0.0.9/32 -m comment --comment fip-{FIPS[0]} -j ACCEPT"
    ]


@pytest.mark.spec("L3-23")
def test_the_scope_of_the_external_network_is_not_translated() -> None:
    scopes = {4: SCOPES[0]}
    outside = evolve(GATEWAY.port, scopes=scopes)
    rules = chains(state(evolve(INSIDE, scopes=scopes), gateway=evolve(GATEWAY, port=outside)))
    assert rules["4 nat snat"] == [
        f"-o {QG} -m mark --mark 0x4010000/0xffff0000 -j RETURN",
        "-j SNAT --to-source 203.0.113.5",
    ]


def test_source_ports_are_random_by_option() -> None:
    context = evolve(CONTEXT, settings=evolve(CONTEXT.settings, random_fully=True))
    rules = lines(dict(context.desired_netns(ROUTER, STATE, found(), {}).chains))
    assert rules["4 nat snat"] == ["-j SNAT --to-source 203.0.113.5 --random-fully"]


def test_rules_of_an_extension_have_a_chain_that_goes_before_floating_ips() -> None:
    rule = RouterRule(
        table=RuleTable.NAT, chain=RuleChain.PREROUTING, words=("-p", "tcp", "-j", "ACCEPT")
    )
    own = RouterContribution(owner="x" * 15, rules=(rule,))
    rules = chains(evolve(STATE, contributions=(own,)))
    name = f"{'x' * 15}-PRE"
    assert rules[f"4 nat {name}"] == ["-p tcp -j ACCEPT"]
    assert rules["4 nat prerouting"][1:] == [f"-j router-{name}", "-j router-float-dnat"]
    assert f"6 nat {name}" not in rules


def test_ports_that_rules_name_are_devices_behind_addresses() -> None:
    words = ("-s", "10.0.0.0/24", "!", "-d", "10.1.0.0/16", "-p", "tcp", "-j", "DROP")
    rules = (
        forward_rule(*words, in_port=INSIDE.id, out_port=GATEWAY.port.id),
        forward_rule("-j", "DROP", in_port=INSIDE.id),
        forward_rule("-j", "DROP", out_port=GATEWAY.port.id),
        forward_rule("-j", "DROP"),
        forward_rule("-j", "DROP", in_port=PORTS[1]),
        forward_rule("-j", "DROP", in_port=INSIDE.id, out_port=PORTS[1]),
    )
    own = RouterContribution(owner="own", rules=rules)
    assert chains(evolve(STATE, contributions=(own,)))["4 filter own-FWD"] == [
        f"-s 10.0.0.0/24 ! -d 10.1.0.0/16 -i {QR} -o {QG} -p tcp -j DROP",
        f"-i {QR} -j DROP",
        f"-o {QG} -j DROP",
        "-j DROP",
    ]


def test_subchains_are_entered_by_rules_alone() -> None:
    rules = (
        forward_rule("-p", "tcp", in_port=INSIDE.id, enter="one"),
        forward_rule(enter="absent"),
        forward_rule("-j", "DROP", subchain="one"),
    )
    made = chains(evolve(STATE, contributions=(RouterContribution(owner="own", rules=rules),)))
    names = [extension_subchain("own", RuleChain.FORWARD, name) for name in ("one", "absent")]
    assert made["4 filter own-FWD"] == [
        f"-i {QR} -p tcp -j router-{names[0]}",
        f"-j router-{names[1]}",
    ]
    assert [made[f"4 filter {name}"] for name in names] == [["-j DROP"], []]
    assert made["4 filter forward"] == ["-j router-own-FWD"]


def test_names_of_the_longest_extensions_fit() -> None:
    for chain in RuleChain:
        rule = RouterRule(table=RuleTable.MANGLE, chain=chain, words=("-j", "ACCEPT"))
        own = RouterContribution(owner="x" * 15, rules=(rule,))
        router = evolve(STATE, contributions=(own,))
        for key in CONTEXT.desired_netns(ROUTER, router, found(), {}).chains:
            full_name(CHAIN_OWNER, key.name)


def test_rules_are_owned_by_what_they_serve() -> None:
    desired = CONTEXT.desired_netns(ROUTER, STATE, found(), {FIPS[0]: translation()})
    owners = {rule.owner for chain in desired.chains.values() for rule in chain.rules}
    assert len(owners) == 2
    assert None not in owners
    assert {key.family for key in desired.chains} == set(Family)
