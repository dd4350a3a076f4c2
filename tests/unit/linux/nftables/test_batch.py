"""Transactions as libnftables reads them, and listings as it writes them."""

import json
import sys

import pytest

from netfw.linux.nftables.batch import parse_listing, render_batch, render_check
from netfw.linux.nftables.operations import (
    ChangeElements,
    DropNftChain,
    DropNftSet,
    MakeNftSet,
    MakeTable,
    NftOperation,
    PutNftChain,
    record_operations,
)
from netfw.linux.nftables.values import (
    Hook,
    NftChain,
    NftRuleset,
    NftSet,
    NftSetKind,
    NftTable,
    ObjectKey,
    make_elements,
    make_rule,
)

pytestmark = pytest.mark.spec("FW-15")

TABLE = NftTable("bridge", "netfw")
CHAIN, OLD = ObjectKey(TABLE, "new"), ObjectKey(TABLE, "old")
MAP, SET = ObjectKey(TABLE, "devices"), ObjectKey(TABLE, "members")
DEVICES, MEMBERS = NftSetKind(("ether_type", "ifname"), verdicts=True), NftSetKind(("ipv6_addr",))
ACCEPT = make_rule({"accept": None})


def commands(*operations: NftOperation, present: NftRuleset | None = None) -> list[str]:
    text = render_batch(operations, present or NftRuleset())
    return [
        " ".join([verb, *body]) for c in json.loads(text)["nftables"] for verb, body in c.items()
    ]


def test_references_hold_at_every_command() -> None:
    present = NftRuleset({TABLE}, {OLD: NftChain((ACCEPT,))}, {SET: NftSet(MEMBERS)})
    operations = [
        DropNftSet(SET),
        DropNftChain(OLD),
        ChangeElements(MAP, DEVICES, {("ip", "tap1"): "new"}, {("ip", "tap2"): "old"}),
        PutNftChain(CHAIN, NftChain((ACCEPT,))),
        MakeNftSet(MAP, DEVICES),
        MakeTable(TABLE),
    ]
    assert commands(*operations, present=present) == [
        "add table",
        "add map",
        "add chain",
        "flush chain",
        "delete element",
        "add rule",
        "add element",
        "delete chain",
        "delete set",
    ]


def test_a_chain_that_is_there_is_emptied_and_filled() -> None:
    present = NftRuleset({TABLE}, {CHAIN: NftChain((ACCEPT,))})
    put = PutNftChain(CHAIN, NftChain((ACCEPT, ACCEPT)))
    assert commands(put, present=present) == ["flush chain", "add rule", "add rule"]
    hooked = PutNftChain(CHAIN, NftChain((), Hook("forward", 1)))
    assert commands(hooked, present=present) == ["flush chain", "delete chain", "add chain"]


def test_text_of_others_is_quoted() -> None:
    rule = make_rule({"accept": None}, comment='", {"x": 1}')
    text = render_batch([PutNftChain(CHAIN, NftChain((rule,)))], NftRuleset())
    assert json.loads(text)["nftables"][1]["add"]["rule"]["comment"] == rule.comment


def test_a_chain_is_checked_with_stubs_of_what_it_refers_to() -> None:
    statement = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "@members"}}
    put = PutNftChain(CHAIN, NftChain((make_rule(statement, {"jump": {"target": "old"}}),)))
    text = render_check(put, {SET: MEMBERS})
    added = [next(iter(c["add"].values())) for c in json.loads(text)["nftables"]]
    assert [each.get("name") for each in added] == ["netfw-check", "members", "old", "new", None]


def test_a_listing_is_read_as_it_was_written() -> None:
    ip = int.from_bytes(b"\x08\x00", sys.byteorder)
    ethertype = {"payload": {"protocol": "ether", "field": "type"}}
    where = {"family": "bridge", "table": "netfw"}
    listing = [
        {"metainfo": {"version": "1.0.6"}},
        {"table": {"family": "bridge", "name": "netfw", "handle": 1}},
        {"set": {**where, "name": "members", "type": "ipv6_addr", "elem": ["::192.0.2.1"]}},
        {
            "map": {
                **where, "name": "devices", "type": ["ether_type", "ifname"], "map": "verdict",
                "elem": [[{"concat": [ip, "tap1"]}, {"goto": {"target": "new"}}]],
            }
        },
        {"chain": {**where, "name": "new", "handle": 2}},
        {
            "rule": {
                **where, "chain": "new", "handle": 3, "comment": "text",
                "expr": [{"match": {"op": "==", "left": ethertype, "right": ip}}, {"accept": None}],
            }
        },
    ]  # fmt: skip
    found = NftRuleset()
    parse_listing(json.dumps({"nftables": listing}), found)
    match = {"match": {"op": "==", "left": ethertype, "right": "ip"}}
    assert found.chains == {CHAIN: NftChain((make_rule(match, {"accept": None}, comment="text"),))}
    assert found.sets == {
        SET: NftSet(MEMBERS, make_elements(["::c000:201"])),
        MAP: NftSet(DEVICES, {("ip", "tap1"): "new"}),
    }


def test_a_base_chain_with_another_policy_is_a_foreign_one() -> None:
    body = {"family": "bridge", "table": "netfw", "name": "new", "hook": "forward", "prio": 1}
    found = NftRuleset()
    listing = [{"chain": {**body, "type": "filter", "policy": "drop"}}]
    parse_listing(json.dumps({"nftables": listing}), found)
    assert found.chains[CHAIN].hook != Hook("forward", 1)


def test_the_mirror_follows_operations() -> None:
    ruleset = NftRuleset()
    change = ChangeElements(SET, MEMBERS, make_elements(["fd00::1", "fd00::2"]))
    record_operations(ruleset, [MakeTable(TABLE), MakeNftSet(SET, MEMBERS), change])
    gone = ChangeElements(SET, MEMBERS, {}, make_elements(["fd00::1"]))
    record_operations(ruleset, [gone, PutNftChain(CHAIN, NftChain((ACCEPT,)))])
    assert ruleset.sets[SET].elements == make_elements(["fd00::2"])
    assert ruleset.chains == {CHAIN: NftChain((ACCEPT,))}
