"""Planner of changes to the tables.  Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from netfw.errors import Conflict
from netfw.linux.iptables.chain import BUILTIN, Chain, ChainKey, check_chain, full_name
from netfw.linux.iptables.mirror import Mirror, jumped_to
from netfw.linux.iptables.operations import (
    AddHook,
    DropChain,
    DropHook,
    HookPoint,
    Operation,
    PutChain,
    TableChange,
)
from netfw.linux.iptables.rule import Family, Jump, Rule, render_rule
from netfw.plan import Update

Spelling = Mapping[tuple[Family, str], Mapping[str, str]]
"""By family and table: the text that iptables prints for rules that netfw spells otherwise."""


@frozen
class Unsure:
    """A rule whose printed text differs from ours; only iptables can decide whether it is equal."""

    key: ChainKey
    rule: Rule
    line: str


def plan_chains(
    update: Update[ChainKey, Chain], mirror: Mirror, owner: str, spelling: Spelling
) -> tuple[TableChange, ...]:
    """Plan the changes that turn the mirror's chains into *update*, one for each table concerned.

    :raises InvalidInput: a chain that its table or family cannot have.
    :raises Conflict: a jump to a chain that will not exist.
    """
    drop = [key for key in _dropped(update, mirror) if key in mirror.chains]
    put = [
        operation
        for key, chain in update.put.items()
        if not _holds(operation := _put(key, chain, owner), mirror, spelling)
    ]
    _refuse_dangling(put, update, mirror, frozenset(drop))
    operations: list[Operation] = [*put, *map(DropChain, drop)]
    hooks = _hooks(update, mirror, owner)
    return _by_table([*hooks, *operations])


def find_unsure(
    update: Update[ChainKey, Chain], mirror: Mirror, owner: str, spelling: Spelling
) -> Iterator[Unsure]:
    """Find the rules whose text alone does not decide whether they are present already."""
    for key, chain in update.put.items():
        have = mirror.chains.get(key, ())
        if key not in mirror.printed or len(have) != len(chain.rules):
            continue
        known = spelling.get((key.family, key.table), {})
        for rule, printed in zip(chain.rules, have, strict=True):
            line = render_rule(rule, owner)
            if line != printed and line not in known:
                yield Unsure(key, rule, line)


def same_lines(put: PutChain, have: tuple[str, ...], spelling: Spelling) -> bool:
    """Return whether the present lines are the desired ones, in our or in iptables' spelling."""
    if put.lines == have:
        return True
    known = spelling.get((put.key.family, put.key.table), {})
    return len(put.lines) == len(have) and all(
        printed in (line, known.get(line)) for line, printed in zip(put.lines, have, strict=True)
    )


def _holds(put: PutChain, mirror: Mirror, spelling: Spelling) -> bool:
    have = mirror.chains.get(put.key)
    return have is not None and same_lines(put, have, spelling)


def _put(key: ChainKey, chain: Chain, owner: str) -> PutChain:
    check_chain(key, chain)
    full_name(owner, key.name)
    return PutChain(key, chain, tuple([render_rule(rule, owner) for rule in chain.rules]))


def _dropped(update: Update[ChainKey, Chain], mirror: Mirror) -> Iterable[ChainKey]:
    if not update.complete:
        return update.drop
    return [key for key in mirror.chains if key not in update.put and key not in update.keep]


def _refuse_dangling(
    puts: Iterable[PutChain],
    update: Update[ChainKey, Chain],
    mirror: Mirror,
    dropped: frozenset[ChainKey],
) -> None:
    there: set[tuple[Family, str, str]] = set()
    """Targets that were checked already: many chains jump to the same one."""
    for put in puts:
        place = put.key.family, put.key.table
        targets = {rule.target.chain for rule in put.chain.rules if isinstance(rule.target, Jump)}
        for name in sorted(name for name in targets if (*place, name) not in there):
            key = ChainKey(family=put.key.family, table=put.key.table, name=name)
            if key not in update.put and (key not in mirror.chains or key in dropped):
                raise Conflict(f"{put.key} leads to chain {name}, which will not be there")
            there.add((*place, name))


def _hooks(update: Update[ChainKey, Chain], mirror: Mirror, owner: str) -> Iterator[Operation]:
    """Plan the jumps to the chains of *update*: exactly the desired ones; other jumps stay."""
    for point, lines in mirror.hooks.items():
        wanted: set[str] = set()
        for line in lines:
            key = ChainKey(
                family=point.family, table=point.table, name=jumped_to(line, owner) or "_"
            )
            chain = update.put.get(key)
            if not _concerned(update, key):
                continue
            proper = line == f"-j {owner}-{key.name}" and line not in wanted
            if chain is not None and point.builtin in chain.hooks and proper:
                wanted.add(line)
            else:
                yield DropHook(point, key, line)
    for key, chain in update.put.items():
        line = f"-j {owner}-{key.name}"
        for builtin in sorted(chain.hooks & BUILTIN[key.table]):
            point = HookPoint(key.family, key.table, builtin)
            if line not in mirror.hooks.get(point, ()):
                yield AddHook(point, key, line, chain.hooked_last)


def _concerned(update: Update[ChainKey, Chain], key: ChainKey) -> bool:
    if key in update.put or key in update.drop:
        return True
    return update.complete and key not in update.keep


def _by_table(operations: Iterable[Operation]) -> tuple[TableChange, ...]:
    tables: dict[tuple[Family, str], list[Operation]] = {}
    for operation in operations:
        place = operation.point if isinstance(operation, AddHook | DropHook) else operation.key
        tables.setdefault((place.family, place.table), []).append(operation)
    return tuple(TableChange(*place, tuple(group)) for place, group in tables.items())
