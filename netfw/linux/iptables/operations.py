"""Operations on tables; those on one table are executed together or not at all."""

from __future__ import annotations

from attrs import field, frozen

from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.text_validation import counted


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
    """Make the chain contain exactly these rules; *lines* are the rules as text.

    The chain is rewritten, or, with *edits*, changed in single rules.
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


Operation = PutChain | DropChain | AddHook | DropHook


@frozen
class TableChange:
    """One atomic step: operations on one table of one family."""

    family: Family
    table: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.operations))
