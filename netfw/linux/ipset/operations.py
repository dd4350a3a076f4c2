"""What can be done to a set, and the lines of ``ipset restore`` that do it."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2s
from typing import assert_never

from attrs import field, frozen

from netfw.linux.ipset.values import SetKind, full_name


@frozen
class MakeSet:
    """Make a set that is not there."""

    name: str
    kind: SetKind
    room: int
    elements: frozenset[str] = field(repr=False)


@frozen
class ReplaceSet:
    """Build a set beside the one that is there, and put it in its place in one step."""

    name: str
    kind: SetKind
    room: int
    elements: frozenset[str] = field(repr=False)


@frozen
class ChangeMembers:
    """Add members, then remove members."""

    name: str
    add: tuple[str, ...]
    remove: tuple[str, ...]


@frozen
class DropSet:
    """Remove a set."""

    name: str


Operation = MakeSet | ReplaceSet | ChangeMembers | DropSet


def render_restore(operation: Operation, owner: str) -> list[str]:
    """The lines that carry out *operation*."""
    full = full_name(owner, operation.name)
    match operation:
        case MakeSet(_, kind, room, want):
            return [_create(full, kind, room, len(want)), *_adds(full, want)]
        case ReplaceSet(name, kind, room, want):
            beside = beside_name(owner, name)
            # What was left beside by somebody who was killed may have been of another kind.
            head = [f"destroy {beside}", _create(beside, kind, room, len(want))]
            return [*head, *_adds(beside, want), f"swap {full} {beside}", f"destroy {beside}"]
        case ChangeMembers(_, add, remove):
            return [*_adds(full, add), *[f"del {full} {element}" for element in remove]]
        case DropSet():
            return [f"destroy {full}"]
        case _:
            assert_never(operation)


def beside_name(owner: str, name: str) -> str:
    """The set that is built beside *name* to take its place; no owner's set is called so."""
    return f"{owner}~{blake2s(name.encode(), digest_size=6).hexdigest()}"


def _create(full: str, kind: SetKind, room: int, count: int) -> str:
    """A table of the right size from the start saves the kernel from enlarging it step by step."""
    family = "inet" if kind.family == 4 else "inet6"
    hash_size = max(1024, 1 << max(0, count.bit_length() - 1))
    head = f"create {full} {kind.type.value} family {family}"
    return f"{head} hashsize {hash_size} maxelem {room}"


def _adds(full: str, elements: Iterable[str]) -> list[str]:
    head = f"add {full} "
    return [head + element for element in elements]
