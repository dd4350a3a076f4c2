"""The text that ``iptables-restore --noflush`` takes, and the errors that it reports.  Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TypeGuard

from attrs import frozen

from netfw.linux.iptables.chain import full_name
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

_LINE = re.compile(r"\bline:? (\d+)\b(?: failed)?:? ?(.*)")
_TOOL = re.compile(r"^[a-z0-9-]+(?: v[\d.]+ \([a-z_]+\))?: ?")


@frozen
class Script:
    """A restore as lines, with the first line (from 1) of each operation and of each table."""

    lines: list[str]
    starts: list[tuple[int, Operation | None]]
    tables: list[tuple[int, TableChange]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def operation(self, line: int) -> Operation | None:
        """Return the operation of a line (from 1); None for lines that frame the table."""
        at = bisect_right(self.starts, line, key=itemgetter(0)) - 1
        return self.starts[at][1] if at >= 0 and line <= len(self.lines) else None

    def changes(self, line: int | None) -> tuple[TableChange, ...]:
        """Return the change of the table of a line; those of all tables if it is unknown."""
        at = bisect_right(self.tables, line or 0, key=itemgetter(0)) - 1
        chosen = self.tables[at : at + 1] if at >= 0 else self.tables
        return tuple(change for _, change in chosen)


@frozen
class RestoreError:
    """A refused line (from 1; None when the tool does not report it) and the reason."""

    line: int | None
    why: str


def render_restore(changes: Iterable[TableChange], owner: str) -> Script:
    """Render the changes of one family as the input of one restore.

    ``:chain`` creates a chain or flushes it.  All chains come first, so that rules may jump to any
    of them; chains are deleted last, when no rule jumps to them any more.
    """
    script = Script([], [], [])
    for change in changes:
        script.tables.append((len(script.lines) + 1, change))
        for operation, part in _parts(change, owner):
            script.starts.append((len(script.lines) + 1, operation))
            script.lines.extend(part)
    return script


Part = tuple[Operation | None, Iterable[str]]


def _parts(change: TableChange, owner: str) -> Iterator[Part]:
    """Yield the parts of the script, in their order."""
    yield None, [f"*{change.table}"]
    for operation in change.operations:
        if isinstance(operation, DropChain) or _is_rewritten(operation):
            yield operation, [f":{full_name(owner, operation.key.name)} - [0:0]"]
    yield from _builtin_parts(change)
    for operation in change.operations:
        if isinstance(operation, PutChain):
            yield operation, _rule_lines(operation, f"{owner}-{operation.key.name}")
    for operation in change.operations:
        if isinstance(operation, AddHook):
            verb = "-A" if operation.last else "-I"
            yield operation, [f"{verb} {operation.point.builtin} {operation.line}"]
    for operation in change.operations:
        if isinstance(operation, DropChain):
            yield operation, [f"-X {full_name(owner, operation.key.name)}"]
    yield None, ["COMMIT"]


def _builtin_parts(change: TableChange) -> Iterator[Part]:
    """Yield the removals from built-in chains; what is flushed keeps its jumps until then."""
    for operation in change.operations:
        if isinstance(operation, ResetPolicy):
            yield operation, [f"-P {operation.point.builtin} ACCEPT"]
        elif isinstance(operation, DropForeignRules):
            builtin = operation.point.builtin
            hooks = (f"-A {builtin} {line}" for line in operation.hooks)
            yield operation, [f"-F {builtin}", *hooks]
    for operation in change.operations:
        if isinstance(operation, DropHook):
            yield operation, [f"-D {operation.point.builtin} {operation.line}"]


def _is_rewritten(operation: Operation) -> TypeGuard[PutChain]:
    return isinstance(operation, PutChain) and operation.edits is None


def _rule_lines(put: PutChain, chain: str) -> list[str]:
    if put.edits is None:
        return [f"-A {chain} {line}" for line in put.lines]
    return [
        *(f"-D {chain} {line}" for line in put.edits.removed),
        *(
            f"-A {chain} {line}" if position is None else f"-I {chain} {position} {line}"
            for position, line in put.edits.inserted
        ),
    ]


def parse_restore_errors(output: str) -> tuple[RestoreError, ...]:
    """Return the errors that the tool reported.

    Its rule parser prints the reason first and ``Error occurred at line: 3`` after it; errors of
    the kernel are ``line 3: RULE_APPEND failed (Invalid argument)`` or ``line 3 failed``.
    """
    errors = []
    reasons: list[str] = []
    for text in output.splitlines():
        if found := _LINE.search(text):
            why = found[2].strip() or " ".join(reasons)
            errors.append(RestoreError(int(found[1]), why or "refused without a reason"))
            reasons = []
        elif text.strip() and not text.startswith("Try `"):
            reasons += [_TOOL.sub("", text).strip()]
    rest = " ".join(filter(None, reasons))
    return tuple(errors) or (RestoreError(None, rest or "refused without a reason"),)
