"""The text that ``iptables-restore --noflush`` takes, and what its complaints mean.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from netfw.linux.iptables.chain import full_name
from netfw.linux.iptables.operations import (
    AddHook,
    DropChain,
    DropHook,
    Operation,
    PutChain,
    TableChange,
)

_LINE = re.compile(r"\bline:? (\d+)\b(?: failed)?:? ?(.*)")
_TOOL = re.compile(r"^[a-z0-9-]+(?: v[\d.]+ \([a-z_]+\))?: ?")


@frozen
class Script:
    """A restore as lines, and which operation each line serves."""

    lines: tuple[str, ...]
    operations: tuple[Operation | None, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@frozen
class Complaint:
    """Which line was refused (from 1; None when the tool does not say), and why."""

    line: int | None
    why: str


def render_restore(change: TableChange, owner: str) -> Script:
    """The change as the input of one restore.

    ``:chain`` makes a chain or empties it.  All chains come first, so that rules may lead to each
    other's; chains go last, when nothing leads to them any more.
    """
    pairs = list(_script(change, owner))
    return Script(tuple(line for line, _ in pairs), tuple(operation for _, operation in pairs))


def _script(change: TableChange, owner: str) -> Iterator[tuple[str, Operation | None]]:
    yield f"*{change.table}", None
    for operation in change.operations:
        if isinstance(operation, PutChain | DropChain):
            yield f":{full_name(owner, operation.key.name)} - [0:0]", operation
    for operation in change.operations:
        if isinstance(operation, DropHook):
            yield f"-D {operation.point.builtin} {operation.line}", operation
    for operation in change.operations:
        if isinstance(operation, PutChain):
            head = f"-A {owner}-{operation.key.name} "
            for line in operation.lines:
                yield head + line, operation
    for operation in change.operations:
        if isinstance(operation, AddHook):
            verb = "-A" if operation.last else "-I"
            yield f"{verb} {operation.point.builtin} {operation.line}", operation
    for operation in change.operations:
        if isinstance(operation, DropChain):
            yield f"-X {full_name(owner, operation.key.name)}", operation
    yield "COMMIT", None


def read_complaints(said: str) -> tuple[Complaint, ...]:
    """What the tool complained about.

    The parts that parse a rule say why first and ``Error occurred at line: 3`` after it; those that
    talk to the kernel say ``line 3: RULE_APPEND failed (Invalid argument)`` or ``line 3 failed``.
    """
    complaints = []
    reasons: list[str] = []
    for text in said.splitlines():
        if found := _LINE.search(text):
            why = found[2].strip() or " ".join(reasons)
            complaints.append(Complaint(int(found[1]), why or "refused without a reason"))
            reasons = []
        elif text.strip() and not text.startswith("Try `"):
            reasons += [_TOOL.sub("", text).strip()]
    rest = " ".join(filter(None, reasons))
    return tuple(complaints) or (Complaint(None, rest or "refused without a reason"),)
