"""Planner of changes to the tables.  Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType

from attrs import frozen

from netfw.errors import Conflict
from netfw.linux.iptables.chain import BUILTIN, Chain, ChainKey, check_chain, full_name
from netfw.linux.iptables.mirror import ChainMirror, jumped_to
from netfw.linux.iptables.operations import (
    AddHook,
    DropChain,
    DropForeignRules,
    DropHook,
    HookPoint,
    Operation,
    PutChain,
    ResetPolicy,
    RuleEdits,
    TableChange,
)
from netfw.linux.iptables.rule import Family, IptablesRule, Jump, render_rule
from netfw.plan import Update

Spelling = Mapping[tuple[Family, str], Mapping[str, str]]
"""By family and table: the text that iptables prints for rules that netfw spells otherwise."""

EDITED_FROM = 32
"""Number of rules from which a chain is changed in single rules; a shorter one is rewritten, which
costs the same and repairs it as a whole."""
MAX_REMOVED = 8
"""Limit of rules that are removed one by one: iptables looks each up in the whole chain."""


@frozen
class ChainEdit:
    """Rules of a present chain that are added at its end, and lines that are removed.

    Its other rules stay as they are, and are not looked at.
    """

    added: tuple[IptablesRule, ...] = ()
    removed: tuple[str, ...] = ()
    """Lines as the chain has them."""


@frozen
class UndecidedRule:
    """A rule whose printed text differs from ours; only iptables can decide whether it is equal."""

    key: ChainKey
    rule: IptablesRule
    line: str


def plan_chains(
    update: Update[ChainKey, Chain],
    mirror: ChainMirror,
    owner: str,
    spelling: Spelling,
    edits: Mapping[ChainKey, ChainEdit] = MappingProxyType({}),
    *,
    sole_owner: bool = False,
) -> tuple[TableChange, ...]:
    """Plan the changes that turn the mirror's chains into *update*, one for each table concerned.

    :param edits: changes of other chains, which do not jump to chains.
    :param sole_owner: whether the namespace has no other owner: rules of other programs in built-in
        chains, and policies other than ACCEPT, are removed.
    :raises InvalidInput: a chain that its table or family cannot have.
    :raises Conflict: a jump to a chain that will not exist.
    """
    drop = [key for key in _dropped(update, mirror) if key in mirror.chains]
    put = [
        make_put(key, chain, lines, mirror, spelling)
        for key, chain, lines in _rendered(update, owner)
        if not _holds(key, lines, mirror, spelling)
    ]
    _refuse_dangling(put, update, mirror, frozenset(drop))
    edited = (_edited(key, edit, mirror.chains[key], owner) for key, edit in edits.items())
    operations: list[Operation] = [*put, *edited, *map(DropChain, drop)]
    hooks = _hooks(update, mirror, owner)
    foreign = _foreign(mirror) if sole_owner else ()
    return _by_table([*foreign, *hooks, *operations])


def _foreign(mirror: ChainMirror) -> Iterator[Operation]:
    for point, lines in mirror.foreign.items():
        yield DropForeignRules(point, lines, mirror.hooks.get(point, ()))
    yield from map(ResetPolicy, mirror.denying)


def find_unsure(
    update: Update[ChainKey, Chain], mirror: ChainMirror, owner: str, spelling: Spelling
) -> Iterator[UndecidedRule]:
    """Find the rules whose text alone does not decide whether they are present already.

    A short chain with another number of rules is rewritten, however its rules are spelled.
    """
    for key, chain in update.put.items():
        have = mirror.chains.get(key, ())
        is_short = len(have) < EDITED_FROM
        if key not in mirror.printed or (is_short and len(have) != len(chain.rules)):
            continue
        known = spelling.get((key.family, key.table), {})
        lines = [render_rule(rule, owner) for rule in chain.rules]
        present = frozenset(have)
        if present <= {*lines, *(known.get(line, line) for line in lines)}:
            continue
        for rule, line in zip(chain.rules, lines, strict=True):
            if line not in present and line not in known:
                yield UndecidedRule(key, rule, line)


def make_put(
    key: ChainKey, chain: Chain, lines: tuple[str, ...], mirror: ChainMirror, spelling: Spelling
) -> PutChain:
    """Make the operation that gives the chain *lines*: by edits if it is long and few differ."""
    have = mirror.chains.get(key, ())
    return PutChain(key, chain, lines, plan_edits(lines, have, spelling, key))


def plan_edits(
    lines: tuple[str, ...], have: tuple[str, ...], spelling: Spelling, key: ChainKey
) -> RuleEdits | None:
    """Plan the edits that turn *have* into *lines*; None if the chain is to be rewritten.

    That is so if the chain is short, if many rules differ, if one is there twice, or if rules
    that stay change places.
    """
    if len(have) < EDITED_FROM:
        return None
    known = spelling.get((key.family, key.table), {})
    places = {line: place for place, line in enumerate(lines)}
    if len(places) < len(lines):
        return None
    places |= {known[line]: place for line, place in places.items() if line in known}
    removed = tuple(line for line in have if line not in places)
    kept = [places[line] for line in have if line in places]
    if any(earlier >= later for earlier, later in pairwise(kept)):
        return None
    there = frozenset(kept)
    inserted = [place for place in range(len(lines)) if place not in there]
    if len(removed) > MAX_REMOVED or len(inserted) > len(lines) // 4:
        return None
    end = kept[-1] if kept else -1
    return RuleEdits(removed, tuple((None if at > end else at + 1, lines[at]) for at in inserted))


def _edited(key: ChainKey, edit: ChainEdit, have: tuple[str, ...], owner: str) -> PutChain:
    """Make the operation of *edit*; a short chain is rewritten, as is one that loses many rules."""
    chain = Chain(edit.added)
    check_chain(key, chain)
    new = tuple(render_rule(rule, owner) for rule in edit.added)
    gone = frozenset(edit.removed)
    lines = (*((line for line in have if line not in gone) if gone else have), *new)
    if len(have) < EDITED_FROM or len(gone) > MAX_REMOVED:
        return PutChain(key, chain, lines)
    return PutChain(key, chain, lines, RuleEdits(edit.removed, tuple((None, line) for line in new)))


def plan_rollback(
    former: ChainMirror,
    present: ChainMirror,
    places: frozenset[tuple[Family, str]],
    spelling: Spelling,
) -> tuple[TableChange, ...]:
    """Plan the changes that give the tables at *places* their former chains and jumps again."""
    operations: list[Operation] = []
    for key, lines in former.chains.items():
        if (key.family, key.table) in places and not _holds(key, lines, present, spelling):
            operations.append(make_put(key, Chain(), lines, present, spelling))
    operations += [
        DropChain(key)
        for key in present.chains
        if (key.family, key.table) in places and key not in former.chains
    ]
    for point in former.hooks.keys() | present.hooks.keys():
        if (point.family, point.table) in places:
            was, now = former.hooks.get(point, ()), present.hooks.get(point, ())
            operations += [DropHook(point, _hooked(point), line) for line in now if line not in was]
            operations += [AddHook(point, _hooked(point), line) for line in was if line not in now]
    return _by_table(operations)


def _hooked(point: HookPoint) -> ChainKey:
    return ChainKey(family=point.family, table=point.table, name=point.builtin)


def _holds(key: ChainKey, lines: tuple[str, ...], mirror: ChainMirror, spelling: Spelling) -> bool:
    """Return whether the present lines are the desired ones, in our or in iptables' spelling."""
    have = mirror.chains.get(key)
    if have is None or lines == have:
        return have is not None
    known = spelling.get((key.family, key.table), {})
    return len(lines) == len(have) and all(
        printed in (line, known.get(line)) for line, printed in zip(lines, have, strict=True)
    )


def _rendered(
    update: Update[ChainKey, Chain], owner: str
) -> Iterator[tuple[ChainKey, Chain, tuple[str, ...]]]:
    for key, chain in update.put.items():
        check_chain(key, chain)
        full_name(owner, key.name)
        yield key, chain, tuple([render_rule(rule, owner) for rule in chain.rules])


def _dropped(update: Update[ChainKey, Chain], mirror: ChainMirror) -> Iterable[ChainKey]:
    if not update.complete:
        return update.drop
    return [key for key in mirror.chains if key not in update.put and key not in update.keep]


def _refuse_dangling(
    puts: Iterable[PutChain],
    update: Update[ChainKey, Chain],
    mirror: ChainMirror,
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


def _hooks(update: Update[ChainKey, Chain], mirror: ChainMirror, owner: str) -> Iterator[Operation]:
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
        place = operation.key if isinstance(operation, PutChain | DropChain) else operation.point
        tables.setdefault((place.family, place.table), []).append(operation)
    return tuple(TableChange(*place, tuple(group)) for place, group in tables.items())
