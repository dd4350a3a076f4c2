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
class PutChain:
    """Make the chain contain exactly these rules; *lines* are the rules as text."""

    key: ChainKey
    chain: Chain = field(repr=False, eq=False)
    lines: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return f"put {self.key}: {counted(len(self.lines), 'rule')}"


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
