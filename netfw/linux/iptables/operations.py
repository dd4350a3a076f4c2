"""Operations on tables; those on one table are executed together or not at all."""

from __future__ import annotations

from attrs import field, frozen

from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.values.text_validation import counted

_MAX_QUOTED = 8
"""Limit of foreign rules that the text of an operation quotes."""


@frozen
class HookPoint:
    """A built-in chain of a table."""

    family: Family
    table: str
    builtin: str


@frozen
class RuleEdits:
    """Changes to single rules of a long chain: the removals, then the insertions in this order."""

    removed: tuple[str, ...] = ()
    """Lines to remove; iptables refuses one that the chain does not hold."""
    inserted: tuple[tuple[int | None, str], ...] = ()
    """Lines to insert, each with its position (from 1) at that time; None: at the end."""


@frozen
class PutChain:
    """Make the chain contain exactly the rules *lines*.

    The chain is rewritten, or, with *edits*, changed in single rules.  *chain* has the rules that
    are new, to name the owner of one that is refused.
    """

    key: ChainKey
    chain: Chain = field(repr=False, eq=False)
    lines: tuple[str, ...] = field(repr=False)
    edits: RuleEdits | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.edits is None:
            return f"put {self.key}: {counted(len(self.lines), 'rule')}"
        inserted, removed = len(self.edits.inserted), len(self.edits.removed)
        return f"edit {self.key}: {inserted} in, {removed} out of {len(self.lines)} rules"


@frozen
class DropChain:
    """Remove the chain with its rules."""

    key: ChainKey

    def __str__(self) -> str:
        return f"drop {self.key}"


@frozen
class AddHook:
    """Add a jump from a built-in chain to the owner's chain *key*."""

    point: HookPoint
    key: ChainKey
    line: str
    last: bool = False

    def __str__(self) -> str:
        return f"hook {self.key} into {self.point.builtin}"


@frozen
class DropHook:
    """Remove a jump to the owner's chain *key* from a built-in chain, as iptables printed it."""

    point: HookPoint
    key: ChainKey
    line: str

    def __str__(self) -> str:
        return f"unhook {self.key} from {self.point.builtin}"


@frozen
class DropForeignRules:
    """Remove the rules of other programs from a built-in chain, whose jumps *hooks* stay.

    The chain is flushed: iptables may be unable to read what it printed for such a rule.
    """

    point: HookPoint
    lines: tuple[str, ...]
    hooks: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        where = f"{self.point.family} {self.point.table} {self.point.builtin}"
        quoted = [*self.lines[:_MAX_QUOTED], *(["..."] if self.lines[_MAX_QUOTED:] else [])]
        return (
            f"remove {counted(len(self.lines), 'foreign rule')} from {where}: {', '.join(quoted)}"
        )


@frozen
class ResetPolicy:
    """Let a built-in chain accept what none of its rules decides, as in a new namespace."""

    point: HookPoint

    def __str__(self) -> str:
        return f"reset the policy of {self.point.family} {self.point.table} {self.point.builtin}"


Operation = PutChain | DropChain | AddHook | DropHook | DropForeignRules | ResetPolicy


@frozen
class TableChange:
    """One atomic step: operations on one table of one family."""

    family: Family
    table: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.operations))
