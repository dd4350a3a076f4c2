"""Operations on sets, and the lines of ``ipset restore`` that execute them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2s
from typing import assert_never

from attrs import field, frozen

from netfw.linux.ipset.values import SetKind, full_name


@frozen
class MakeSet:
    """Create a set that does not exist."""

    name: str
    kind: SetKind
    max_elements: int
    elements: frozenset[str] = field(repr=False)


@frozen
class ReplaceSet:
    """Build a shadow set beside the present one, and swap them in one step."""

    name: str
    kind: SetKind
    max_elements: int
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
    """Render the lines that execute *operation*."""
    full = full_name(owner, operation.name)
    match operation:
        case MakeSet(_, kind, max_elements, want):
            return [_create(full, kind, max_elements, len(want)), *_adds(full, want)]
        case ReplaceSet(name, kind, max_elements, want):
            beside = beside_name(owner, name)
            # A shadow set that a killed process left may be of another kind.
            head = [f"destroy {beside}", _create(beside, kind, max_elements, len(want))]
            return [*head, *_adds(beside, want), f"swap {full} {beside}", f"destroy {beside}"]
        case ChangeMembers(_, add, remove):
            return [*_adds(full, add), *[f"del {full} {element}" for element in remove]]
        case DropSet():
            return [f"destroy {full}"]
        case _:
            assert_never(operation)


def beside_name(owner: str, name: str) -> str:
    """Return the name of the shadow set of *name*; no owner's set has such a name."""
    return f"{owner}~{blake2s(name.encode(), digest_size=6).hexdigest()}"


def _create(full: str, kind: SetKind, max_elements: int, count: int) -> str:
    """Render a ``create`` with a hash size that saves the kernel from growing it step by step."""
    family = "inet" if kind.family == 4 else "inet6"
    hash_size = max(1024, 1 << max(0, count.bit_length() - 1))
    head = f"create {full} {kind.type.value} family {family}"
    return f"{head} hashsize {hash_size} maxelem {max_elements}"


def _adds(full: str, elements: Iterable[str]) -> list[str]:
    head = f"add {full} "
    return [head + element for element in elements]
