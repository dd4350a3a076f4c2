"""Chains: the desired contents of the tables of one namespace, for one owner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.linux.iptables.quoting import CHAIN_NAME_LENGTH, check_chain_name
from netfw.linux.iptables.rule import Family, IptablesRule

BUILTIN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "raw": frozenset({"PREROUTING", "OUTPUT"}),
        "mangle": frozenset({"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}),
        "nat": frozenset({"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"}),
        "filter": frozenset({"INPUT", "FORWARD", "OUTPUT"}),
        "security": frozenset({"INPUT", "FORWARD", "OUTPUT"}),
    }
)
"""Built-in chains of each table."""

_OWNER = re.compile(r"[A-Za-z0-9_]{1,16}")


@frozen(kw_only=True)
class ChainKey:
    """Key of a chain; *name* is without the prefix of the owner."""

    family: Family = field(converter=Family)
    table: str
    name: str

    def __attrs_post_init__(self) -> None:
        if self.table not in BUILTIN:
            raise InvalidInput({"table": f"{self.table!r} is none of {', '.join(BUILTIN)}"})
        check_chain_name(self.name)

    def __str__(self) -> str:
        return f"{self.family} {self.table} chain {self.name}"


@frozen
class Chain:
    """The rules of a chain, and the built-in chains that jump to it.

    A hook is inserted before the rules that are present at that time, or after them
    (*hooked_last*).  It is not moved when other programs insert rules later.
    """

    rules: tuple[IptablesRule, ...] = ()
    hooks: frozenset[str] = frozenset()
    hooked_last: bool = False


def check_owner(owner: str) -> None:
    """Refuse an owner that cannot distinguish its chains from those of another.

    :raises InvalidInput: it has a dash (which ends the owner in a chain's name) or is too long.
    """
    if not _OWNER.fullmatch(owner):
        raise InvalidInput({f"owner {owner!r}": "not 1 to 16 of A-Z a-z 0-9 _"})


def full_name(owner: str, name: str) -> str:
    """Return the kernel's name of the chain *name* of *owner*.

    :raises InvalidInput: longer than the kernel takes.
    """
    full = f"{owner}-{name}"
    if len(full) > CHAIN_NAME_LENGTH:
        raise InvalidInput({f"chain {full}": f"longer than {CHAIN_NAME_LENGTH} characters"})
    return full


def check_chain(key: ChainKey, chain: Chain) -> None:
    """Refuse a chain that its table or family cannot have.

    :raises InvalidInput: a hook that the table lacks, or an address of the other family.
    """
    problems = {
        f"{key}, hook {hook}": f"table {key.table} has {', '.join(sorted(BUILTIN[key.table]))}"
        for hook in chain.hooks - BUILTIN[key.table]
    }
    for number, rule in enumerate(chain.rules, 1):
        if rule.family is not None and rule.family is not key.family:
            problems[f"{key}, rule {number}"] = f"its addresses are {rule.family}"
    if problems:
        raise InvalidInput(problems)
