"""The picture of what an owner has in the tables, as the tool printed it or as we put it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import define, field

from netfw.errors import BackendBroken
from netfw.linux.iptables.chain import BUILTIN, ChainKey
from netfw.linux.iptables.operations import AddHook, DropChain, DropHook, HookPoint, PutChain
from netfw.linux.iptables.operations import Operation as Operation_
from netfw.linux.iptables.rule import Family

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_OWN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@define
class Mirror:
    """The chains of one owner as lines of text, and the jumps to them from built-in chains.

    ``printed`` are the chains that were read and not yet compared with what is wanted: the tool may
    spell their rules differently from how we wrote them.
    """

    chains: dict[ChainKey, tuple[str, ...]] = field(factory=dict)
    hooks: dict[HookPoint, tuple[str, ...]] = field(factory=dict)
    printed: set[ChainKey] = field(factory=set)

    def replace(self, family: Family, read: Mirror) -> None:
        """Take what was *read* for everything of *family*."""
        for key in [key for key in self.chains if key.family is family]:
            del self.chains[key]
        for point in [point for point in self.hooks if point.family is family]:
            del self.hooks[point]
        self.chains |= read.chains
        self.hooks |= read.hooks
        self.printed = {key for key in self.printed if key.family is not family} | read.printed

    def record(self, operations: Iterable[Operation_]) -> None:
        """Take in what was carried out."""
        for operation in operations:
            self._record(operation)

    def _record(self, operation: Operation_) -> None:
        match operation:
            case PutChain(key, _, lines):
                self.confirm(key, lines)
            case DropChain(key):
                self.chains.pop(key, None)
                self.printed.discard(key)
            case AddHook(point, _, line, last):
                there = self.hooks.get(point, ())
                self.hooks[point] = (*there, line) if last else (line, *there)
            case DropHook(point, _, line):
                there = self.hooks.get(point, ())
                at = there.index(line)
                self.hooks[point] = there[:at] + there[at + 1 :]
            case _:
                assert_never(operation)

    def confirm(self, key: ChainKey, lines: tuple[str, ...]) -> None:
        """The chain is known to hold *lines*, however the tool may spell them."""
        self.chains[key] = lines
        self.printed.discard(key)


def parse_save(text: str, family: Family, owner: str) -> Mirror:
    """What *owner* has, from the output of ``iptables-save``.

    Only the frame is understood (tables, names of chains, which chain a line is in, jumps to the
    owner's chains); rules stay text.

    :raises BackendBroken: a table that iptables says it cannot show.
    """
    mirror = Mirror()
    lines: dict[ChainKey, list[str]] = {}
    for table, line in _tables(text):
        if line.startswith(f":{owner}-"):
            name = line[1:].split(" ", 1)[0].removeprefix(f"{owner}-")
            if _OWN_NAME.fullmatch(name):
                lines[ChainKey(family=family, table=table, name=name)] = []
    chains = {(key.table, f"{owner}-{key.name}"): rules for key, rules in lines.items()}
    jump = f" {owner}-"
    for table, line in _tables(text):
        if not line.startswith("-A "):
            continue
        _, chain, rule = f"{line} ".split(" ", 2)
        if (rules := chains.get((table, chain))) is not None:
            rules.append(rule[:-1])
        elif chain in BUILTIN[table] and jump in f" {line}" and jumped_to(line, owner):
            point = HookPoint(family, table, chain)
            mirror.hooks[point] = (*mirror.hooks.get(point, ()), rule[:-1])
    mirror.chains = {key: tuple(rules) for key, rules in lines.items()}
    mirror.printed = set(mirror.chains)
    return mirror


def jumped_to(line: str, owner: str) -> str | None:
    """The name (without the owner) of the owner's chain that a rule leads to, if it does."""
    words = _QUOTED.sub('""', line)  # a comment may say what it likes
    found = re.search(rf"(?:^| )-[jg] {owner}-([A-Za-z0-9_][A-Za-z0-9_.-]*)(?: |$)", words)
    return found[1] if found else None


def _tables(text: str) -> Iterator[tuple[str, str]]:
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith("# Table ") and "incompatible" in line:
            raise BackendBroken(f"iptables cannot show a table that nft changed: {line[2:]}")
        elif table in BUILTIN:
            yield table, line
