"""Rules of a group as lines of its chains."""

from ipaddress import ip_network
from uuid import UUID

import pytest

from netfw.drivers.firewall import Rules
from netfw.linux.iptables.rule import render_rule
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import Mac
from netfw.model.values.ids import AddressGroupId
from netfw_drivers.iptables.plan.group_chains import (
    empty_group,
    group_chains,
    macs_chains,
    render,
    render_answers,
    sent_to,
)
from netfw_drivers.iptables.plan.names import OWNER, short
from tests.unit.backends.iptables.samples import FRIENDS, GROUP, IN, OUT, V6, a_rule

SET = f"nfw-G4{short(FRIENDS)}"
BOOK = AddressGroupId(UUID(int=5))


def lines(rule: SecurityGroupRule) -> list[str]:
    inward = rule.direction is Direction.INGRESS
    return [render_rule(line, OWNER) for line in render(rule, OWNER, inward=inward)]


def answers(rule: SecurityGroupRule) -> list[str]:
    inward = rule.direction is Direction.INGRESS
    return [render_rule(line, OWNER) for line in render_answers(rule, OWNER, inward=inward)]


@pytest.mark.spec("FW-02")
@pytest.mark.parametrize(
    ("rule", "line", "answer"),
    [
        (a_rule(IN), "-j ACCEPT", "-j ACCEPT"),
        (
            a_rule(IN, protocol=6, port_min=80, port_max=90),
            "-p tcp -m tcp --dport 80:90 -j ACCEPT",
            "-p tcp -m tcp --sport 80:90 -j ACCEPT",
        ),
        (
            a_rule(OUT, V6, protocol=17, port_min=53, port_max=53),
            "-p udp -m udp --dport 53 -j ACCEPT",
            "-p udp -m udp --sport 53 -j ACCEPT",
        ),
        (
            a_rule(IN, remote_prefix=ip_network("192.0.2.0/24")),
            "-s 192.0.2.0/24 -j ACCEPT",
            "-d 192.0.2.0/24 -j ACCEPT",
        ),
        (
            a_rule(OUT, remote_prefix=ip_network("192.0.2.0/24"), protocol=47),
            "-d 192.0.2.0/24 -p 47 -j ACCEPT",
            "-s 192.0.2.0/24 -p 47 -j ACCEPT",
        ),
        (a_rule(IN, remote_prefix=ip_network("0.0.0.0/0")), "-j ACCEPT", "-j ACCEPT"),
        (
            a_rule(IN, protocol=1, port_min=8, port_max=0),
            "-p icmp -m icmp --icmp-type 8/0 -j ACCEPT",
            "-p icmp -m icmp --icmp-type 0 -j ACCEPT",
        ),
        (
            a_rule(IN, V6, protocol=1, port_min=128),
            "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT",
            "-p ipv6-icmp -m icmp6 --icmpv6-type 129 -j ACCEPT",
        ),
        (
            a_rule(OUT, protocol=136, port_min=1, port_max=2),
            "-p 136 -m multiport --dports 1:2 -j ACCEPT",
            "-p 136 -m multiport --sports 1:2 -j ACCEPT",
        ),
        (
            a_rule(OUT, protocol=132, port_min=9, port_max=9),
            "-p sctp -m sctp --dport 9 -j ACCEPT",
            "-p sctp -m sctp --sport 9 -j ACCEPT",
        ),
        (
            a_rule(IN, remote_address_group_id=BOOK),
            f"-m set --match-set nfw-A4{short(BOOK)} src -j ACCEPT",
            f"-m set --match-set nfw-A4{short(BOOK)} dst -j ACCEPT",
        ),
    ],
)
def test_a_rule_is_a_line_and_its_answers_are_one(
    rule: SecurityGroupRule, line: str, answer: str
) -> None:
    assert lines(rule) == [line]
    assert answers(rule) == [answer]


@pytest.mark.parametrize(("code", "compared"), [(None, "0x18=0xff"), (3, "0x10=0xff03")])
def test_the_type_that_iptables_takes_for_any_is_compared_by_hand(
    code: int | None, compared: str
) -> None:
    rule = a_rule(IN, protocol=1, port_min=255, port_max=code)
    assert lines(rule) == [f'-p icmp -m u32 --u32 "0x0>>0x16&0x3c@0x0>>{compared}" -j ACCEPT']


def test_icmp_message_without_a_reply_has_no_answer() -> None:
    assert answers(a_rule(IN, protocol=1, port_min=3, port_max=1)) == []


@pytest.mark.spec("FW-11")
def test_members_are_in_a_set_and_those_known_by_mac_in_a_chain() -> None:
    rule = a_rule(IN, protocol=6, remote_group_id=FRIENDS)
    assert lines(rule) == [
        f"-p tcp -m set --match-set {SET} src -j ACCEPT",
        f"-p tcp -j nfw-m{short(FRIENDS)}",
    ]
    assert answers(rule) == [
        f"-p tcp -m set --match-set {SET} dst -j ACCEPT",
        f"-p tcp -j nfw-d{short(FRIENDS)}",
    ]


def test_a_group_with_state_lets_answers_be_judged_by_what_was_asked() -> None:
    chains = group_chains(GROUP, Rules(frozenset({a_rule(IN, protocol=6)})), OWNER)
    shown = {
        key.name: [render_rule(rule, OWNER) for rule in chain.rules]
        for key, chain in chains.items()
        if key.family == 4
    }
    head = ["-m conntrack --ctstate INVALID -j RETURN", "-m conntrack --ctstate RELATED -j ACCEPT"]
    reply = "-m conntrack --ctstate ESTABLISHED --ctdir REPLY -g nfw-"
    id = short(GROUP)
    assert shown == {
        f"g{id}": [*head, f"{reply}b{id}", "-p tcp -j ACCEPT"],
        f"a{id}": ["-p tcp -j ACCEPT"],
        f"e{id}": [*head, f"{reply}a{id}"],
        f"b{id}": [],
    }


def test_a_group_without_state_says_so_and_knows_no_answers() -> None:
    chains = group_chains(GROUP, Rules(frozenset({a_rule(OUT)}), stateful=False), OWNER)
    shown = {
        key.name[0]: [render_rule(rule, OWNER) for rule in chain.rules]
        for key, chain in chains.items()
        if key.family == 4
    }
    mark = "-m comment --comment stateless"
    assert shown == {"e": [mark, "-j ACCEPT"], "g": [mark]}


def test_a_rule_is_for_one_family_and_one_direction() -> None:
    chains = group_chains(GROUP, Rules(frozenset({a_rule(OUT, V6, protocol=17)})), OWNER)
    having = {(key.family, key.name[0]) for key, chain in chains.items() if len(chain.rules) % 3}
    assert having == {(6, "e"), (6, "b")}


def test_equal_rules_are_one_line_in_one_order() -> None:
    some = [a_rule(IN, protocol=p, id=UUID(int=n)) for n, p in enumerate((17, 6, 6, 47))]
    (chain,) = [
        chain
        for key, chain in group_chains(GROUP, Rules(frozenset(some)), OWNER).items()
        if key.family == 4 and key.name[0] == "g"
    ]
    assert [rule.protocol for rule in chain.rules[3:]] == ["47", "tcp", "udp"]


def test_missing_group_is_empty() -> None:
    assert {len(chain.rules) for chain in empty_group(GROUP).values()} == {0}


def test_mac_member_matches_as_sender_and_as_receiver() -> None:
    mac = Mac("fa:16:3e:00:00:07")
    sending, taking = macs_chains(FRIENDS, 4, [mac]).values()
    assert sending.rules[0].text == "-m mac --mac-source fa:16:3e:00:00:07 -j ACCEPT"
    assert taking.rules[0] == sent_to(mac)
    program = "6,32 0 0 4292870144,21 0 3 4195761664,40 0 0 4292870148,21 0 1 7,6 0 0 65535,6 0 0 0"
    assert sent_to(mac).text == f'-m bpf --bytecode "{program}" -j ACCEPT'
