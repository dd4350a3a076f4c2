"""Rules, chains and the plan, as values."""

from __future__ import annotations

import shlex
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import BackendBroken, Conflict, InvalidInput
from netfw.linux.iptables import (
    ACCEPT,
    DROP,
    Chain,
    ChainKey,
    Family,
    IptablesRule,
    Jump,
    Not,
    match,
    target,
)
from netfw.linux.iptables.chain import check_owner
from netfw.linux.iptables.mirror import ChainMirror, parse_save
from netfw.linux.iptables.operations import HookPoint
from netfw.linux.iptables.plan import find_unsure, plan_chains
from netfw.linux.iptables.restore import RestoreError, parse_restore_errors, render_restore
from netfw.linux.iptables.rule import render_rule
from netfw.plan import Update

A = ChainKey(family=Family.IPV4, table="filter", name="a")
B = ChainKey(family=Family.IPV4, table="filter", name="b")
NAT = ChainKey(family=Family.IPV4, table="nat", name="a")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (IptablesRule(target=DROP), "-j DROP"),
        (IptablesRule(target=None, comment="count"), "-m comment --comment count"),
        (IptablesRule(target=Jump("b")), "-j nfw-b"),
        (IptablesRule(target=Jump("b", goto=True)), "-g nfw-b"),
        (IptablesRule(target=ACCEPT, source=ip_address("10.0.0.1")), "-s 10.0.0.1/32 -j ACCEPT"),
        (IptablesRule(target=ACCEPT, source=ip_network("0.0.0.0/0")), "-j ACCEPT"),
        (
            IptablesRule(
                target=ACCEPT, destination=Not(ip_network("fd00::/8")), in_device=Not("qg-+")
            ),
            "! -d fd00::/8 ! -i qg-+ -j ACCEPT",
        ),
        (
            IptablesRule(
                target=target("MARK", set_xmark="0x1/0xff"),
                protocol="tcp",
                matches=(match("tcp", dport=80), match("conntrack", ctstate=Not("NEW"))),
            ),
            "-p tcp -m tcp --dport 80 -m conntrack ! --ctstate NEW -j MARK --set-xmark 0x1/0xff",
        ),
        (
            IptablesRule(
                target=target("CONNMARK", save_mark=True),
                matches=(match("set", match_set=("s", "src,dst")),),
            ),
            "-m set --match-set s src,dst -j CONNMARK --save-mark",
        ),
        (IptablesRule(target=ACCEPT, comment="a b"), '-m comment --comment "a b" -j ACCEPT'),
    ],
)
def test_a_rule_reads_as_iptables_save_prints_it(rule, text):
    assert render_rule(rule, "nfw") == text


@pytest.mark.spec("FW-12")
@given(st.text(max_size=60))
def test_no_text_becomes_more_than_one_word(text):
    if not text.isprintable() or not text or text[0] == "-" or text == "!":
        with pytest.raises(InvalidInput, match="--log-prefix"):
            target("LOG", log_prefix=text)
        return
    rule = IptablesRule(target=target("LOG", log_prefix=text), comment=text)
    line = render_rule(rule, "nfw")
    assert line.splitlines() == [line]
    words = shlex.split(line, posix=True)
    expected = ["-m", "comment", "--comment", text, "-j", "LOG", "--log-prefix", text]
    assert [w.replace("\\'", "'") for w in words] == expected


@pytest.mark.spec("FW-12")
@pytest.mark.parametrize(
    "make",
    [
        lambda: IptablesRule(target=ACCEPT, comment="a\n-A INPUT -j ACCEPT"),
        lambda: IptablesRule(target=ACCEPT, comment="-j ACCEPT"),
        lambda: IptablesRule(target=ACCEPT, comment="x" * 256),
        lambda: IptablesRule(target=ACCEPT, in_device="tap 0"),
        lambda: IptablesRule(target=ACCEPT, out_device="-j"),
        lambda: IptablesRule(target=ACCEPT, in_device="a" * 17),
        lambda: IptablesRule(target=ACCEPT, in_device=""),
        lambda: IptablesRule(target=ACCEPT, protocol="tcp -j ACCEPT"),
        lambda: IptablesRule(target=Jump("a b")),
        lambda: IptablesRule(target=Jump("")),
        lambda: target("ACCEPT -s"),
        lambda: target("-X"),
        lambda: match("tcp\n"),
        lambda: match("tcp", dport="!"),
        lambda: match("tcp", dport=""),
        lambda: match("tcp", dport="-j"),
        lambda: match("tcp", **{"dport 80 -j": "x"}),
        lambda: match("set", match_set=("a", "")),
        lambda: match("comment", comment="\x00"),
        lambda: match("comment", comment="\u2028"),
        lambda: ChainKey(family=4, table="filtre", name="a"),
        lambda: ChainKey(family=4, table="filter", name="a\n"),
        lambda: check_owner("with-dash"),
        lambda: check_owner(""),
    ],
)
def test_what_could_be_read_as_something_else_is_refused_by_name(make):
    with pytest.raises(InvalidInput):
        make()


def mirror(**chains: tuple[str, ...]) -> ChainMirror:
    return ChainMirror(
        {ChainKey(family=4, table="filter", name=name): lines for name, lines in chains.items()}
    )


def script(update: Update, have: ChainMirror) -> list[list[str]]:
    return [
        render_restore([change], "nfw").lines for change in plan_chains(update, have, "nfw", {})
    ]


def test_agreement_needs_nothing():
    assert script(Update({A: Chain((IptablesRule(target=DROP),))}), mirror(a=("-j DROP",))) == []


def test_a_changed_chain_is_restored_alone():
    update = Update(
        {A: Chain((IptablesRule(target=DROP),)), B: Chain((IptablesRule(target=DROP),))}
    )
    assert script(update, mirror(a=("-j ACCEPT",), b=("-j DROP",))) == [
        ["*filter", ":nfw-a - [0:0]", "-A nfw-a -j DROP", "COMMIT"]
    ]


def test_chains_come_before_rules_and_go_after_them():
    update = Update({A: Chain((IptablesRule(target=DROP),), frozenset({"INPUT"}))}, frozenset({B}))
    have = mirror(b=("-j nfw-a",))
    have.hooks[HookPoint(Family.IPV4, "filter", "FORWARD")] = ("-j nfw-b",)
    assert script(update, have) == [
        [
            "*filter",
            ":nfw-a - [0:0]",
            ":nfw-b - [0:0]",
            "-D FORWARD -j nfw-b",
            "-A nfw-a -j DROP",
            "-I INPUT -j nfw-a",
            "-X nfw-b",
            "COMMIT",
        ]
    ]


def test_each_table_is_a_step_of_its_own():
    changes = plan_chains(Update({A: Chain(), NAT: Chain()}), ChainMirror(), "nfw", {})
    assert [(change.table, str(change)) for change in changes] == [
        ("filter", "put IPv4 filter chain a: 0 rules"),
        ("nat", "put IPv4 nat chain a: 0 rules"),
    ]


def test_with_a_complete_update_the_rest_is_garbage_but_not_what_is_kept():
    update = Update({}, complete=True, keep=frozenset({B}))
    assert [line for line in script(update, mirror(a=(), b=()))[0] if "nfw" in line] == [
        ":nfw-a - [0:0]",
        "-X nfw-a",
    ]


def test_dropping_what_is_absent_is_nothing():
    assert script(Update(drop=frozenset({A})), ChainMirror()) == []


def test_an_update_that_says_nothing_of_a_hooked_chain_leaves_its_hook():
    have = mirror(a=(), b=())
    have.hooks[HookPoint(Family.IPV4, "filter", "FORWARD")] = ("-j nfw-b",)
    assert script(Update({A: Chain()}), have) == []


def test_a_jump_to_a_chain_that_goes_is_refused():
    update = Update({A: Chain((IptablesRule(target=Jump("b")),))}, frozenset({B}))
    with pytest.raises(Conflict, match="chain a leads to chain b"):
        script(update, mirror(b=()))


def test_addresses_of_the_other_family_and_foreign_hooks_are_refused():
    rule = IptablesRule(target=DROP, source=ip_network("fd00::/8"))
    with pytest.raises(InvalidInput, match="rule 1"):
        script(Update({A: Chain((rule,))}), ChainMirror())
    with pytest.raises(InvalidInput, match="hook POSTROUTING"):
        script(Update({A: Chain((), frozenset({"POSTROUTING"}))}), ChainMirror())


def test_a_name_that_is_too_long_with_its_owner_is_refused():
    long = ChainKey(family=4, table="filter", name="x" * 25)
    with pytest.raises(InvalidInput, match="longer than 28"):
        script(Update({long: Chain()}), ChainMirror())


def test_only_printed_rules_of_the_same_number_are_worth_asking_about():
    update = Update({A: Chain((IptablesRule(target=target("REJECT")),))})
    have = mirror(a=("-j REJECT --reject-with icmp-port-unreachable",))
    assert list(find_unsure(update, have, "nfw", {})) == []
    have.printed.add(A)
    (unsure,) = find_unsure(update, have, "nfw", {})
    assert (unsure.key, unsure.line) == (A, "-j REJECT")
    spelled = {(Family.IPV4, "filter"): {"-j REJECT": have.chains[A][0]}}
    assert list(find_unsure(update, have, "nfw", spelled)) == []
    assert plan_chains(update, have, "nfw", spelled) == ()


SAVED = """\
# Generated by iptables-save
*nat
:PREROUTING ACCEPT [0:0]
:nfw-a - [0:0]
-A PREROUTING -j nfw-a
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:docker - [0:0]
:nfw-a - [0:0]
:nfw-b - [0:0]
:nfwx-c - [0:0]
-A FORWARD -s 1.1.1.1/32 -m comment --comment "to -j nfw-a or not" -j docker
-A FORWARD -i eth0 -j nfw-a
-A docker -j nfw-b
-A nfw-a -m comment --comment "x y" -j nfw-b
-A nfw-a
COMMIT
"""


def test_what_an_owner_has_is_found_in_what_iptables_saves():
    found = parse_save(SAVED, Family.IPV4, "nfw")
    assert found.chains == {
        NAT: (),
        A: ('-m comment --comment "x y" -j nfw-b', ""),
        B: (),
    }
    assert found.hooks == {
        HookPoint(Family.IPV4, "nat", "PREROUTING"): ("-j nfw-a",),
        HookPoint(Family.IPV4, "filter", "FORWARD"): ("-i eth0 -j nfw-a",),
    }


def test_a_table_that_iptables_cannot_show_is_said():
    with pytest.raises(BackendBroken, match="incompatible"):
        parse_save("# Table `filter' is incompatible, use 'nft' tool.\n", Family.IPV4, "nfw")


@pytest.mark.parametrize(
    ("output", "errors"),
    [
        (
            'iptables-nft-restore v1.8.9 (nf_tables): unknown option "--foo"\n'
            "Error occurred at line: 3\nTry `iptables-restore -h' for more information.\n",
            [RestoreError(3, 'unknown option "--foo"')],
        ),
        (
            "iptables-nft-restore v1.8.9 (nf_tables): \n"
            "line 4: RULE_APPEND failed (Invalid argument): rule in chain nfw-a\n"
            "line 6: RULE_APPEND failed (Invalid argument): rule in chain nfw-b\n",
            [
                RestoreError(4, "RULE_APPEND failed (Invalid argument): rule in chain nfw-a"),
                RestoreError(6, "RULE_APPEND failed (Invalid argument): rule in chain nfw-b"),
            ],
        ),
        ("iptables-restore: line 6 failed\n", [RestoreError(6, "refused without a reason")]),
        ("", [RestoreError(None, "refused without a reason")]),
        ("iptables-restore: out of memory\n", [RestoreError(None, "out of memory")]),
    ],
)
def test_restore_errors_are_parsed_in_each_of_their_forms(output, errors):
    assert list(parse_restore_errors(output)) == errors
