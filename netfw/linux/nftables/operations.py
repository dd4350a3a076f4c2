"""Operations on tables of nftables.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from netfw.linux.nftables.values import (
    Elements,
    NftChain,
    NftRuleset,
    NftSet,
    NftSetKind,
    NftTable,
    ObjectKey,
)


@frozen
class MakeTable:
    """Create a table, in the place of a dormant one."""

    table: NftTable

    def __str__(self) -> str:
        return f"make table {self.table}"


@frozen
class DropTable:
    """Remove a table with all that it has."""

    table: NftTable

    def __str__(self) -> str:
        return f"drop table {self.table}"


@frozen
class PutNftChain:
    """Create a chain, or replace its rules."""

    key: ObjectKey
    chain: NftChain

    def __str__(self) -> str:
        return f"put chain {self.key} ({len(self.chain.rules)} rules)"


@frozen
class DropNftChain:
    """Remove a chain."""

    key: ObjectKey

    def __str__(self) -> str:
        return f"drop chain {self.key}"


@frozen
class MakeNftSet:
    """Create an empty set or map, in place of any other of that name."""

    key: ObjectKey
    kind: NftSetKind

    def __str__(self) -> str:
        return f"make {'map' if self.kind.verdicts else 'set'} {self.key}"


@frozen
class DropNftSet:
    """Remove a set or map."""

    key: ObjectKey

    def __str__(self) -> str:
        return f"drop set {self.key}"


@frozen
class ChangeElements:
    """Remove elements of a set or map, and add others."""

    key: ObjectKey
    kind: NftSetKind
    add: Elements = field(factory=dict, hash=False)
    remove: Elements = field(factory=dict, hash=False)

    def __str__(self) -> str:
        return f"add {len(self.add)} and remove {len(self.remove)} elements of {self.key}"


NftOperation = (
    MakeTable | DropTable | PutNftChain | DropNftChain | MakeNftSet | DropNftSet | ChangeElements
)


def record_operations(ruleset: NftRuleset, operations: Iterable[NftOperation]) -> None:
    """Change *ruleset* as *operations* change the kernel."""
    for operation in operations:
        match operation:
            case MakeTable(table):
                ruleset.tables.add(table)
                ruleset.dormant.discard(table)
            case DropTable(table):
                ruleset.tables.discard(table)
                ruleset.dormant.discard(table)
                for objects in (ruleset.chains, ruleset.sets):
                    for key in [key for key in objects if key.table == table]:
                        objects.pop(key)
            case PutNftChain(key, chain):
                ruleset.chains[key] = chain
            case DropNftChain(key):
                ruleset.chains.pop(key, None)
            case MakeNftSet(key, kind):
                ruleset.sets[key] = NftSet(kind)
            case DropNftSet(key):
                ruleset.sets.pop(key, None)
            case ChangeElements(key, _, add, remove):
                elements = ruleset.sets[key].elements
                for each in remove:
                    elements.pop(each, None)
                elements.update(add)
