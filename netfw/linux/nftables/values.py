"""Tables, chains, sets and maps of nftables as values, as its JSON spells them.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

COMMENT_LENGTH = 127
"""Bytes that the comment of a rule may have."""

Key = tuple[str, ...]
"""Key of an element: its fields."""
Elements = Mapping[Key, str]
"""Elements by key; in a verdict map, with the chain that packets go to."""


@frozen(cache_hash=True)
class NftTable:
    """A table by its family and name."""

    family: str
    name: str

    def __str__(self) -> str:
        return f"{self.family} {self.name}"


@frozen(cache_hash=True)
class ObjectKey:
    """A chain, set or map of a table."""

    table: NftTable
    name: str

    def __str__(self) -> str:
        return f"{self.table} {self.name}"


@frozen
class Hook:
    """Where a base chain sees packets."""

    point: str
    priority: int


@frozen
class NftRule:
    """A rule: the text of its statements, and a comment."""

    text: str
    comment: str = ""


@frozen
class NftChain:
    """Rules in order; with a hook, a base chain that accepts by default."""

    rules: tuple[NftRule, ...] = ()
    hook: Hook | None = None


@frozen
class NftSetKind:
    """Types of the fields of a set's keys; *verdicts*: a map to chains.

    A *foreign* set is one that netfw never makes, such as one of intervals, or whose elements
    expire; its elements are not read.
    """

    fields: tuple[str, ...]
    verdicts: bool = False
    foreign: bool = False


@frozen
class NftSet:
    """A set or map with its elements."""

    kind: NftSetKind
    elements: dict[Key, str] = field(factory=dict)


@define
class NftRuleset:
    """The contents of some tables."""

    tables: set[NftTable] = field(factory=set)
    chains: dict[ObjectKey, NftChain] = field(factory=dict)
    sets: dict[ObjectKey, NftSet] = field(factory=dict)
    dormant: set[NftTable] = field(factory=set)
    """Tables whose chains see no packet; what they contain is not read."""


def make_rule(*statements: Mapping[str, Any], comment: str = "") -> NftRule:
    """Build a rule of *statements*."""
    return NftRule(render_json(statements), comment)


def render_json(value: object) -> str:
    """Render *value* in the one spelling by which rules are compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def make_elements(keys: Iterable[str]) -> dict[Key, str]:
    """Build the elements of a set with one field."""
    return {(key,): "" for key in keys}
