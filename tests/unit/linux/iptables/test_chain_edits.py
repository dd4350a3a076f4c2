"""Edits of long chains, and the order of several tables.  Values only."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.linux.iptables import DROP, RETURN, Chain, ChainKey, Family, IptablesRule
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.operations import AddHook, DropChain, HookPoint, PutChain, TableChange
from netfw.linux.iptables.plan import (
    EDITED_FROM,
    MAX_REMOVED,
    ChainEdit,
    plan_chains,
    plan_edits,
    plan_rollback,
)
from netfw.linux.iptables.restore import render_restore
from netfw.linux.iptables.table_order import order_tables, strictest
from netfw.plan import Update

LONG = ChainKey(family=4, table="nat", name="long")
FILTER = ChainKey(family=4, table="filter", name="scope")
MANGLE = ChainKey(family=4, table="mangle", name="marks")
NOTHING: dict[tuple[Family, str], dict[str, str]] = {}
LINES = tuple(f"-s 10.0.0.{number}/32 -j DROP" for number in range(40))


def rule(number: int) -> IptablesRule:
    return IptablesRule(source=ip_network(f"10.0.0.{number}"), target=DROP)


def edited(have: tuple[str, ...], put: PutChain) -> list[str]:
    """Return the chain after the edits, executed as iptables does it."""
    chain = list(have)
    assert put.edits is not None
    for line in put.edits.removed:
        chain.remove(line)
    for position, line in put.edits.inserted:
        if position is None:
            chain.append(line)
        else:
            assert position <= len(chain)
            chain.insert(position - 1, line)
    return chain


def changed(have: tuple[str, ...], numbers: list[int]) -> PutChain:
    update = Update({LONG: Chain(tuple(map(rule, numbers)))})
    (change,) = plan_chains(update, ChainMirror({LONG: have}), "own", NOTHING)
    (put,) = change.operations
    assert isinstance(put, PutChain)
    return put


def test_one_more_rule_at_the_end_of_a_long_chain_is_appended():
    put = changed(LINES, [*range(40), 77])
    script = render_restore([TableChange(Family.IPV4, "nat", (put,))], "own")
    assert script.lines == ["*nat", "-A own-long -s 10.0.0.77/32 -j DROP", "COMMIT"]
    assert str(put) == "edit IPv4 nat chain long: 1 in, 0 out of 41 rules"


def by_edit(have: tuple[str, ...], edit: ChainEdit) -> PutChain:
    (change,) = plan_chains(Update(), ChainMirror({LONG: have}), "own", NOTHING, {LONG: edit})
    (put,) = change.operations
    assert isinstance(put, PutChain)
    return put


@pytest.mark.parametrize("removed", [(), LINES[:1], LINES[3:5]])
def test_an_edit_adds_rules_at_the_end_and_leaves_the_others(removed: tuple[str, ...]):
    put = by_edit(LINES, ChainEdit((rule(77),), removed))
    rest = [line for line in LINES if line not in removed]
    assert edited(LINES, put) == list(put.lines) == [*rest, "-s 10.0.0.77/32 -j DROP"]


@pytest.mark.parametrize(
    ("have", "removed"),
    [(LINES[: EDITED_FROM - 1], LINES[:1]), (LINES, LINES[: MAX_REMOVED + 1])],
)
def test_an_edit_of_a_short_chain_or_of_many_rules_rewrites_it(
    have: tuple[str, ...], removed: tuple[str, ...]
):
    put = by_edit(have, ChainEdit(removed=removed))
    assert put.edits is None
    assert put.lines == have[len(removed) :]


def test_rules_within_a_long_chain_are_inserted_and_removed_by_position_and_text():
    put = changed(LINES, [*range(5), 77, *range(6, 40)])
    script = render_restore([TableChange(Family.IPV4, "nat", (put,))], "own")
    assert script.lines[1:-1] == [
        "-D own-long -s 10.0.0.5/32 -j DROP",
        "-I own-long 6 -s 10.0.0.77/32 -j DROP",
    ]


@pytest.mark.parametrize(
    ("have", "numbers"),
    [
        (LINES[: EDITED_FROM - 1], list(range(EDITED_FROM))),
        (LINES, list(range(100, 140))),
        (LINES, [1, 0, *range(2, 40)]),
        (LINES, [*range(40), 3]),
        ((*LINES, LINES[3]), list(range(40))),
    ],
    ids=["short", "all others", "moved", "wanted twice", "present twice"],
)
def test_chains_that_edits_do_not_suit_are_rewritten(have, numbers):
    assert changed(have, numbers).edits is None


@given(
    st.lists(st.integers(0, 99), min_size=EDITED_FROM, max_size=60, unique=True),
    st.lists(st.integers(0, 99), max_size=60, unique=True),
)
def test_edits_always_lead_to_the_desired_chain(have, extra):
    lines = tuple(f"-s 10.0.0.{number}/32 -j DROP" for number in have)
    wanted = [n for n in have if n not in extra[: len(extra) // 8]]
    for at, number in enumerate(extra[-4:]):
        if number not in wanted:
            wanted.insert(at * 7, number)
    desired = tuple(f"-s 10.0.0.{number}/32 -j DROP" for number in wanted)
    edits = plan_edits(desired, lines, NOTHING, LONG)
    if edits is not None:
        assert edited(lines, PutChain(LONG, Chain(), desired, edits)) == list(desired)


def test_rules_that_iptables_spells_otherwise_are_neither_removed_nor_inserted():
    printed = ("-j REJECT --reject-with icmp-port-unreachable", *LINES)
    spelling = {(Family.IPV4, "nat"): {"-j REJECT": printed[0]}}
    edits = plan_edits(("-j REJECT", *LINES, "-j DROP"), printed, spelling, LONG)
    assert edits is not None
    assert (edits.removed, edits.inserted) == ((), ((None, "-j DROP"),))


ALLOW, DENY = "-i qr-{} -j RETURN", "-i qr-{} -j DROP"


@pytest.mark.parametrize(
    ("former", "new", "between"),
    [
        ([DENY.format(1)], [DENY.format(2)], [DENY.format(2), DENY.format(1)]),
        ([ALLOW.format(1), "-j DROP"], [ALLOW.format(2), "-j DROP"], ["-j DROP"]),
        (["-j own-a", "-j DROP"], ["-j own-b", "-j DROP"], ["-j own-b", "-j own-a", "-j DROP"]),
        ([ALLOW.format(1), DENY.format(1)], [DENY.format(1), ALLOW.format(1)], [DENY.format(1)]),
        (
            ['-m comment --comment "x -j RETURN " -j DROP'],
            [],
            ['-m comment --comment "x -j RETURN " -j DROP'],
        ),
    ],
    ids=["denials of both", "admissions of neither", "jumps of both", "moved", "comment"],
)
@pytest.mark.spec("L3-30")
def test_between_two_tables_the_filter_denies_what_either_side_denies(former, new, between):
    assert list(strictest(former, new)) == between


def evaluate(chain: tuple[str, ...], packet: frozenset[int]) -> bool:
    """Return whether the chain denies a packet, which matches the rules of these numbers."""
    for line in chain:
        number, verdict = line.split(" -j ")
        if int(number) in packet:
            return verdict == "DROP"
    return False


CHAIN = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["DROP", "RETURN"])), max_size=8, unique=True
).map(lambda rules: tuple(f"{number} -j {verdict}" for number, verdict in rules))


@given(CHAIN, CHAIN, st.frozensets(st.integers(0, 9)))
def test_nothing_that_either_chain_denies_is_admitted_in_between(former, new, packet):
    between = strictest(former, new)
    if evaluate(former, packet) or evaluate(new, packet):
        assert evaluate(between, packet)


def put(key: ChainKey, *lines: str) -> PutChain:
    return PutChain(key, Chain(), lines)


@pytest.mark.spec("L3-30")
def test_filter_table_is_tightened_first_and_loosened_last():
    gone = ChainKey(family=4, table="filter", name="gone")
    hook = AddHook(HookPoint(Family.IPV4, "filter", "FORWARD"), FILTER, "-j own-scope")
    changes = [
        TableChange(Family.IPV4, "filter", (hook, put(FILTER, "-j b"), DropChain(gone))),
        TableChange(Family.IPV4, "nat", (put(LONG, "-j n"),)),
        TableChange(Family.IPV4, "mangle", (put(MANGLE, "-j m"),)),
    ]
    mirror = ChainMirror({FILTER: ("-j a",), gone: ()})
    ordered = order_tables(changes, mirror, NOTHING)
    assert [change.table for change in ordered] == ["filter", "mangle", "nat", "filter"]
    assert ordered[0].operations == (hook, put(FILTER, "-j b", "-j a"))
    assert ordered[-1].operations == (put(FILTER, "-j b"), DropChain(gone))
    alone = order_tables(changes[:1], mirror, NOTHING)
    assert alone == tuple(changes[:1])


def test_new_filter_chain_alone_comes_before_the_other_tables():
    changes = [
        TableChange(Family.IPV4, "nat", (put(LONG, "-j n"),)),
        TableChange(Family.IPV4, "filter", (put(FILTER, "-j a"),)),
    ]
    assert [each.table for each in order_tables(changes, ChainMirror(), NOTHING)] == [
        "filter",
        "nat",
    ]


def test_rollback_gives_back_chains_and_jumps_of_the_tables_concerned():
    point, other = HookPoint(Family.IPV4, "nat", "OUTPUT"), HookPoint(Family.IPV4, "raw", "OUTPUT")
    new = ChainKey(family=4, table="nat", name="new")
    untouched = ChainKey(family=4, table="raw", name="other")
    former = ChainMirror({LONG: ("-j a",), FILTER: ("-j f",)}, {point: ("-j own-long",)})
    present = ChainMirror(
        {LONG: ("-j b",), new: (), FILTER: ("-j f",), untouched: ()},
        {point: ("-j own-new",), other: ("-j own-other",)},
    )
    places = frozenset({(Family.IPV4, "nat"), (Family.IPV4, "filter")})
    (change,) = plan_rollback(former, present, places, NOTHING)
    assert render_restore([change], "own").lines == [
        "*nat",
        ":own-long - [0:0]",
        ":own-new - [0:0]",
        "-D OUTPUT -j own-new",
        "-A own-long -j a",
        "-I OUTPUT -j own-long",
        "-X own-new",
        "COMMIT",
    ]
    assert plan_rollback(former, former, places, NOTHING) == ()


def test_the_owner_of_a_rule_does_not_make_it_another_rule():
    assert IptablesRule(target=RETURN, owner="fip 1") == IptablesRule(target=RETURN, owner="fip 2")
