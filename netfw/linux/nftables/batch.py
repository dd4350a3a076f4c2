"""Transactions as libnftables reads them, and listings as it writes them.  Pure."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from netfw.linux.nftables.operations import (
    ChangeElements,
    DropNftChain,
    DropNftSet,
    DropTable,
    MakeNftSet,
    MakeTable,
    NftOperation,
    PutNftChain,
)
from netfw.linux.nftables.values import (
    Elements,
    Hook,
    Key,
    NftChain,
    NftRule,
    NftRuleset,
    NftSet,
    NftSetKind,
    NftTable,
    ObjectKey,
    render_json,
)

ETHERTYPES = {"ip": 0x0800, "arp": 0x0806, "ip6": 0x86DD}

_LISTED_ETHERTYPES = {
    int.from_bytes(number.to_bytes(2, "big"), sys.byteorder): name
    for name, number in ETHERTYPES.items()
}
"""libnftables prints the bytes of an ethertype as a number of this machine."""
_ETHERTYPE_FIELDS = ('{"field":"type","protocol":"ether"}', '{"key":"protocol"}', '"ptype"')
_ADDRESS_TYPES = ("ipv4_addr", "ipv6_addr")
_TARGET = re.compile(r'"target":"([^"]+)"')
_SET = re.compile(r'"@([^"]+)"')

_FOREIGN = frozenset({"flags", "timeout", "gc-interval", "size", "stmt"})
"""Attributes of sets that netfw never makes."""

_SCRATCH = "netfw-check"


def render_batch(operations: Iterable[NftOperation], present: NftRuleset) -> str:
    """Render *operations* as one transaction, in an order in which references hold."""
    return _commands(_ordered_commands(list(operations), present))


def render_list(table: NftTable) -> str:
    """Render the request for all that a table has."""
    return _commands([render_json({"list": {"table": _named(table)}})])


def render_check(put: PutNftChain, kinds: Mapping[ObjectKey, NftSetKind]) -> str:
    """Render a transaction that has the rules of one chain alone, in a table of its own."""
    table = NftTable(put.key.table.family, _SCRATCH)
    texts = " ".join(rule.text for rule in put.chain.rules)
    chains = {ObjectKey(table, name) for name in _TARGET.findall(texts)} - {put.key}
    sets = {ObjectKey(put.key.table, name) for name in _SET.findall(texts)}
    own = ObjectKey(table, put.key.name)
    stubs: list[NftOperation] = [MakeTable(table)]
    stubs += [MakeNftSet(ObjectKey(table, key.name), kinds[key]) for key in sets if key in kinds]
    stubs += [PutNftChain(key, NftChain()) for key in chains if key != own]
    return render_batch([*stubs, PutNftChain(own, put.chain)], NftRuleset())


def _commands(commands: Iterable[str]) -> str:
    return f'{{"nftables":[{",".join(commands)}]}}'


def _ordered_commands(operations: Sequence[NftOperation], present: NftRuleset) -> Iterator[str]:
    steps = (_make_step, _clear_step, _fill_step, _drop_step)
    for step in steps:
        for operation in sorted(operations, key=_creation_order):
            yield from step(operation, present)


def _creation_order(operation: NftOperation) -> int:
    """Return a sort key: tables are made before their content, chains dropped before sets."""
    kinds = (
        MakeTable,
        MakeNftSet,
        PutNftChain,
        DropNftChain,
        ChangeElements,
        DropNftSet,
        DropTable,
    )
    return kinds.index(type(operation))


def _make_step(operation: NftOperation, present: NftRuleset) -> Iterator[str]:
    if isinstance(operation, MakeTable):
        if operation.table in present.dormant:
            yield render_json({"delete": {"table": _named(operation.table)}})
        yield render_json({"add": {"table": _named(operation.table)}})
    elif isinstance(operation, MakeNftSet):
        if operation.key in present.sets:
            yield _set_command("delete", operation.key, present)
        yield _add_set(operation)


def _clear_step(operation: NftOperation, present: NftRuleset) -> Iterator[str]:
    if isinstance(operation, ChangeElements) and operation.remove:
        yield _element_command("delete", operation, operation.remove)
    elif isinstance(operation, PutNftChain):
        yield from _cleared(operation, present.chains.get(operation.key))
    elif isinstance(operation, DropNftChain):
        yield render_json({"flush": {"chain": _in_table(operation.key)}})
    elif isinstance(operation, DropNftSet) and _is_map(operation.key, present):
        # Its elements refer to chains, which could not be dropped before it.
        yield _set_command("flush", operation.key, present)


def _fill_step(operation: NftOperation, present: NftRuleset) -> Iterator[str]:
    if isinstance(operation, ChangeElements) and operation.add:
        yield _element_command("add", operation, operation.add)
    elif isinstance(operation, PutNftChain):
        yield from _rule_commands(operation)


def _drop_step(operation: NftOperation, present: NftRuleset) -> Iterator[str]:
    if isinstance(operation, DropNftChain):
        yield render_json({"delete": {"chain": _in_table(operation.key)}})
    elif isinstance(operation, DropNftSet):
        yield _set_command("delete", operation.key, present)
    elif isinstance(operation, DropTable):
        yield render_json({"delete": {"table": _named(operation.table)}})


def _named(table: NftTable) -> dict[str, str]:
    return {"family": table.family, "name": table.name}


def _in_table(key: ObjectKey) -> dict[str, Any]:
    return {"family": key.table.family, "table": key.table.name, "name": key.name}


def _cleared(put: PutNftChain, former: NftChain | None) -> Iterator[str]:
    """Render an empty chain in place of *former*."""
    place = _in_table(put.key)
    if former is not None:
        yield render_json({"flush": {"chain": place}})
        if former.hook == put.chain.hook:
            return
        yield render_json({"delete": {"chain": place}})
    hook = put.chain.hook
    if hook is not None:
        place |= {"type": "filter", "hook": hook.point, "prio": hook.priority, "policy": "accept"}
    yield render_json({"add": {"chain": place}})


def _rule_commands(put: PutNftChain) -> Iterator[str]:
    table = put.key.table
    head = render_json({"chain": put.key.name, "family": table.family, "table": table.name})[:-1]
    for rule in put.chain.rules:
        note = f',"comment":{json.dumps(rule.comment)}' if rule.comment else ""
        yield f'{{"add":{{"rule":{head}{note},"expr":{rule.text}}}}}}}'


def _set_command(verb: str, key: ObjectKey, present: NftRuleset) -> str:
    kind = "map" if _is_map(key, present) else "set"
    return render_json({verb: {kind: _in_table(key)}})


def _is_map(key: ObjectKey, present: NftRuleset) -> bool:
    found = present.sets.get(key)
    return found is not None and found.kind.verdicts


def _add_set(make: MakeNftSet) -> str:
    fields = make.kind.fields
    body = {**_in_table(make.key), "type": fields[0] if len(fields) == 1 else list(fields)}
    if make.kind.verdicts:
        return render_json({"add": {"map": {**body, "map": "verdict"}}})
    return render_json({"add": {"set": body}})


def _element_command(verb: str, change: ChangeElements, elements: Elements) -> str:
    rendered = [_element(key, target) for key, target in elements.items()]
    return render_json({verb: {"element": {**_in_table(change.key), "elem": rendered}}})


def _element(key: Key, target: str) -> Any:
    plain: Any = key[0] if len(key) == 1 else {"concat": list(key)}
    return [plain, {"goto": {"target": target}}] if target else plain


def parse_listing(text: str, ruleset: NftRuleset) -> None:
    """Add what a listing has to *ruleset*; objects of other kinds are left out."""
    rules: dict[ObjectKey, list[NftRule]] = {}
    for entry in json.loads(text)["nftables"]:
        for kind, body in entry.items():
            if kind == "table":
                ruleset.tables.add(NftTable(body["family"], body["name"]))
                continue
            if "table" not in body:
                continue
            table = NftTable(body["family"], body["table"])
            if kind == "rule":
                rule = NftRule(_canonical(body["expr"]), body.get("comment", ""))
                rules.setdefault(ObjectKey(table, body["chain"]), []).append(rule)
            elif kind == "chain":
                ruleset.chains[ObjectKey(table, body["name"])] = NftChain((), _hook(body))
            elif kind in ("set", "map"):
                ruleset.sets[ObjectKey(table, body["name"])] = _parse_set(body)
    for key, found in rules.items():
        ruleset.chains[key] = NftChain(tuple(found), ruleset.chains[key].hook)


def _hook(body: Mapping[str, Any]) -> Hook | None:
    if "hook" not in body:
        return None
    priority = int(body["prio"])
    plain = body.get("type") == "filter" and body.get("policy") == "accept"
    return Hook(body["hook"] if plain else f"foreign {body['hook']}", priority)


def _canonical(statements: list[Any]) -> str:
    text = render_json(statements)
    if any(each in text for each in _ETHERTYPE_FIELDS):
        for statement in statements:
            _name_ethertypes(statement.get("match", {}))
        return render_json(statements)
    return text


def _name_ethertypes(match: dict[str, Any]) -> None:
    left = render_json(match.get("left"))
    if not any(each in left for each in _ETHERTYPE_FIELDS):
        return
    right = match["right"]
    if isinstance(right, dict) and "set" in right:
        match["right"] = {"set": [_ethertype(each) for each in right["set"]]}
    else:
        match["right"] = _ethertype(right)


def _ethertype(listed: object) -> object:
    return _LISTED_ETHERTYPES.get(listed, listed) if isinstance(listed, int) else listed


def _parse_set(body: Mapping[str, Any]) -> NftSet:
    kinds = body["type"]
    fields = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    foreign = not _FOREIGN.isdisjoint(body) or body.get("map", "verdict") != "verdict"
    found = NftSet(NftSetKind(fields, verdicts="map" in body, foreign=foreign))
    for element in body.get("elem", ()) if not foreign else ():
        plain, target = element, ""
        if isinstance(element, list):
            plain, target = element[0], _target(element[1])
        if isinstance(plain, dict) and "elem" in plain:  # with a comment or a counter
            plain = plain["elem"]["val"]
        words = plain["concat"] if isinstance(plain, dict) and "concat" in plain else [plain]
        key = tuple(_word(word, kind) for word, kind in zip(words, fields, strict=False))
        found.elements[key] = target
    return found


def _target(verdict: Mapping[str, Any]) -> str:
    """Return the chain of a verdict; any other verdict is a foreign one."""
    goto = verdict.get("goto")
    return str(goto["target"]) if isinstance(goto, dict) else f"foreign {render_json(verdict)}"


def _word(word: object, kind: str) -> str:
    if kind == "ether_type":
        return str(_LISTED_ETHERTYPES.get(word, word)) if isinstance(word, int) else str(word)
    if kind in _ADDRESS_TYPES:
        return str(ip_address(str(word)))
    return str(word)
