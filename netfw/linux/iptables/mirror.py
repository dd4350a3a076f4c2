"""Mirror of the chains of one owner, as iptables printed them or as netfw wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import assert_never

from attrs import define, field

from netfw.errors import BackendBroken
from netfw.linux.iptables.chain import BUILTIN, ChainKey
from netfw.linux.iptables.operations import (
    AddHook,
    DropChain,
    DropForeignRules,
    DropHook,
    HookPoint,
    PutChain,
    ResetPolicy,
)
from netfw.linux.iptables.operations import Operation as Operation_
from netfw.linux.iptables.rule import Family

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_OWN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@define
class ChainMirror:
    """The chains of one owner as lines of text, and the jumps to them from built-in chains.

    ``printed`` are the chains that were read and not yet compared with the desired ones: iptables
    may spell their rules differently from how netfw wrote them.  ``foreign`` are the other rules
    of built-in chains, ``denying`` the built-in chains with another policy than ACCEPT.
    """

    chains: dict[ChainKey, tuple[str, ...]] = field(factory=dict)
    hooks: dict[HookPoint, tuple[str, ...]] = field(factory=dict)
    printed: set[ChainKey] = field(factory=set)
    foreign: dict[HookPoint, tuple[str, ...]] = field(factory=dict)
    denying: set[HookPoint] = field(factory=set)

    def replace(self, family: Family, read: ChainMirror) -> None:
        """Replace everything of *family* with what was *read*."""
        for key in [key for key in self.chains if key.family is family]:
            del self.chains[key]
        for points in (self.hooks, self.foreign):
            for point in [point for point in points if point.family is family]:
                del points[point]
        self.chains |= read.chains
        self.hooks |= read.hooks
        self.foreign |= read.foreign
        self.printed = {key for key in self.printed if key.family is not family} | read.printed
        self.denying = {each for each in self.denying if each.family is not family} | read.denying

    def copy(self) -> ChainMirror:
        """Return the mirror as it is now."""
        return ChainMirror(
            dict(self.chains),
            dict(self.hooks),
            set(self.printed),
            dict(self.foreign),
            set(self.denying),
        )

    def record(self, operations: Iterable[Operation_]) -> None:
        """Record an executed change."""
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
            case DropForeignRules(point):
                self.foreign.pop(point, None)
            case ResetPolicy(point):
                self.denying.discard(point)
            case _:
                assert_never(operation)

    def confirm(self, key: ChainKey, lines: tuple[str, ...]) -> None:
        """Record that the chain holds *lines*, whatever spelling iptables printed."""
        self.chains[key] = lines
        self.printed.discard(key)


def parse_save(text: str, family: Family, owner: str) -> ChainMirror:
    """Parse the chains of *owner* from the output of ``iptables-save``.

    Only the structure is parsed (tables, names and policies of chains, the chain of each line,
    jumps to the owner's chains); rules stay text.

    :raises BackendBroken: iptables reports a table that it cannot print.
    """
    mirror = ChainMirror()
    lines: dict[ChainKey, list[str]] = {}
    for table, line in _tables(text):
        if line.startswith(f":{owner}-"):
            name = line[1:].split(" ", 1)[0].removeprefix(f"{owner}-")
            if _OWN_NAME.fullmatch(name):
                lines[ChainKey(family=family, table=table, name=name)] = []
        elif line.startswith(":") and (builtin := _denying_chain(line)) in BUILTIN[table]:
            mirror.denying.add(HookPoint(family, table, builtin))
    chains = {(key.table, f"{owner}-{key.name}"): rules for key, rules in lines.items()}
    hooks: dict[HookPoint, list[str]] = {}
    foreign: dict[HookPoint, list[str]] = {}
    jump = f" {owner}-"
    for table, line in _tables(text):
        if not line.startswith("-A "):
            continue
        _, chain, rule = f"{line} ".split(" ", 2)
        if (rules := chains.get((table, chain))) is not None:
            rules.append(rule[:-1])
        elif chain in BUILTIN[table]:
            point = HookPoint(family, table, chain)
            is_hook = jump in f" {line}" and jumped_to(line, owner)
            (hooks if is_hook else foreign).setdefault(point, []).append(rule[:-1])
    mirror.hooks = {point: tuple(rules) for point, rules in hooks.items()}
    mirror.foreign = {point: tuple(rules) for point, rules in foreign.items()}
    mirror.chains = {key: tuple(rules) for key, rules in lines.items()}
    mirror.printed = set(mirror.chains)
    return mirror


def _denying_chain(line: str) -> str:
    """Return the chain of a ``:CHAIN POLICY [0:0]`` whose policy is not ACCEPT, or nothing."""
    name, policy, *_ = f"{line[1:]}  ".split(" ")
    return name if policy not in ("ACCEPT", "-") else ""


def jumped_to(line: str, owner: str) -> str | None:
    """Return the name (without the owner) of the owner's chain that a rule jumps to, if any."""
    words = without_quoted_text(line)
    found = re.search(rf"(?:^| )-[jg] {owner}-([A-Za-z0-9_][A-Za-z0-9_.-]*)(?: |$)", words)
    return found[1] if found else None


def without_quoted_text(line: str) -> str:
    """Return a rule without what is quoted: a comment may contain anything."""
    return _QUOTED.sub('""', line)


def _tables(text: str) -> Iterator[tuple[str, str]]:
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith("# Table ") and "incompatible" in line:
            raise BackendBroken(f"iptables cannot show a table that nft changed: {line[2:]}")
        elif table in BUILTIN:
            yield table, line
