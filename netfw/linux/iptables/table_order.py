"""Order of several tables in one restore: safe if it ends between two of them.  Pure.

A restore is atomic for each table only.  What is denied by the former rules as well as by the new
ones must be denied in between, too.  The filter table alone denies; what it decides on (marks,
translated addresses) comes from the other tables.  It is therefore changed twice, if another table
changes with it: before the others it gets all that denies, and loses what admits no more; after
them it gets what admits, and loses what denies no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.mirror import ChainMirror, without_quoted_text
from netfw.linux.iptables.operations import (
    AddHook,
    DropChain,
    DropForeignRules,
    DropHook,
    Operation,
    PutChain,
    ResetPolicy,
    TableChange,
)
from netfw.linux.iptables.plan import Spelling, make_put, plan_edits

DENYING = "filter"
"""Table that denies.  In it, a rule admits by ACCEPT or RETURN; *goto* is not covered."""

_ORDER = ("raw", "mangle", "nat", "security", DENYING)
_ADMITS = re.compile(r"(?:^| )-j (?:ACCEPT|RETURN)(?: |$)")


def order_tables(
    changes: Iterable[TableChange], mirror: ChainMirror, spelling: Spelling
) -> tuple[TableChange, ...]:
    """Return the changes of one family in an order that is safe after each of them."""
    ordered = sorted(changes, key=lambda change: _ORDER.index(change.table))
    if len(ordered) < 2 or ordered[-1].table != DENYING:
        return tuple(ordered)
    *others, denying = ordered
    first, last = _split(denying, mirror, spelling)
    return (*_change(denying, first), *others, *_change(denying, last))


def _change(change: TableChange, operations: Sequence[Operation]) -> Iterator[TableChange]:
    if operations:
        yield TableChange(change.family, change.table, tuple(operations))


def _split(
    change: TableChange, mirror: ChainMirror, spelling: Spelling
) -> tuple[list[Operation], list[Operation]]:
    first: list[Operation] = []
    last: list[Operation] = []
    for operation in change.operations:
        match operation:
            case PutChain():
                before, after = _phases(operation, mirror, spelling)
                first += before
                last += after
            case AddHook() | DropForeignRules():
                first.append(operation)
            case DropHook() | DropChain() | ResetPolicy():
                last.append(operation)
    return first, last


def _phases(
    put: PutChain, mirror: ChainMirror, spelling: Spelling
) -> tuple[list[PutChain], list[PutChain]]:
    key, former = put.key, mirror.chains.get(put.key)
    if former is None:
        return [put], []
    between = strictest(_in_our_spelling(former, put.lines, spelling, key), put.lines)
    first = make_put(key, put.chain, between, mirror, spelling)
    last = PutChain(key, put.chain, put.lines, plan_edits(put.lines, between, {}, key))
    return [first] if between != former else [], [last] if between != put.lines else []


def _in_our_spelling(
    printed: Sequence[str], lines: Sequence[str], spelling: Spelling, key: ChainKey
) -> tuple[str, ...]:
    known = spelling.get((key.family, key.table), {})
    ours = {known[line]: line for line in lines if line in known}
    return tuple(ours.get(line, line) for line in printed)


def strictest(former: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Return a chain that denies whatever one of the two denies.

    It has the rules of both in their order, without those that admit and are in one only.  If
    common rules changed places there is no such order, and nothing is admitted explicitly.
    """
    common = frozenset(former) & frozenset(new)
    one, other = (
        [line for line in side if line in common or not _admits(line)] for side in (former, new)
    )
    if [line for line in one if line in common] == [line for line in other if line in common]:
        return tuple(_merge(one, other, common))
    return tuple(dict.fromkeys(line for line in (*one, *other) if not _admits(line)))


def _merge(former: list[str], new: list[str], common: frozenset[str]) -> Iterator[str]:
    rest = iter(former)
    for line in new:
        if line in common:
            for each in rest:
                if each == line:
                    break
                yield each
        yield line
    yield from rest


def _admits(line: str) -> bool:
    return _ADMITS.search(without_quoted_text(line)) is not None
