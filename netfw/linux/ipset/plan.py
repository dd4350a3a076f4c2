"""Planner of changes to the sets.  Pure: values in, values out.

Within a set, new members are added before old ones are removed: at every moment the set holds all
members that both have, and none that neither has.  A set that is mostly replaced, or that has to
grow, is built as a shadow set and swapped in, which is atomic for its readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from attrs import define, field

from netfw.errors import Conflict
from netfw.linux.ipset.operations import (
    ChangeMembers,
    DropSet,
    MakeSet,
    Operation,
    ReplaceSet,
)
from netfw.linux.ipset.values import (
    IpSet,
    SetKind,
    SetType,
    choose_max_elements,
    elements,
    full_name,
    normal_element,
)
from netfw.plan import Update


@define
class KernelSet:
    """A set as the kernel has it: ``elements`` are its members as ipset writes them."""

    kind: SetKind
    max_elements: int
    elements: set[str] = field(factory=set, repr=False)


Sets = Mapping[str, KernelSet]
"""The sets of one owner, by the owner's names."""


def plan_sets(update: Update[str, IpSet], have: Sets, owner: str) -> tuple[Operation, ...]:
    """Plan the operations that turn *have* into *update*: at most one for each set.

    :raises InvalidInput: a name or member that ipset cannot have.
    :raises Conflict: a set of that name is of another kind.
    """
    puts = (plan_set(name, wanted, have.get(name), owner) for name, wanted in update.put.items())
    gone = [
        DropSet(name)
        for name in (have if update.complete else update.drop)
        if name in have and name not in update.put and name not in update.keep
    ]
    return (*(operation for operation in puts if operation is not None), *gone)


def plan_set(name: str, wanted: IpSet, have: KernelSet | None, owner: str) -> Operation | None:
    """Plan the operation that makes one set as desired; None if it is already."""
    full = full_name(owner, name)
    want = frozenset(elements(wanted.kind, wanted.members))
    if have is None:
        return MakeSet(name, wanted.kind, choose_max_elements(len(want)), want)
    if have.kind != wanted.kind:
        raise Conflict(f"set {full} is {have.kind}, not {wanted.kind}: drop it first")
    add, remove = want - have.elements, have.elements - want
    if len(add) + len(remove) > len(want):
        return ReplaceSet(name, wanted.kind, choose_max_elements(len(want)), want)
    return plan_members(name, have, sorted(add), sorted(remove))


def plan_members(
    name: str, have: KernelSet, add: Iterable[str], remove: Iterable[str]
) -> Operation | None:
    """Plan to add and remove a few elements; the cost does not depend on the size of the set."""
    new = tuple(element for element in dict.fromkeys(add) if element not in have.elements)
    old = tuple(element for element in dict.fromkeys(remove) if element in have.elements)
    if not new and not old:
        return None
    if len(have.elements) + len(new) > have.max_elements:
        want = frozenset(have.elements.union(new).difference(old))
        return ReplaceSet(name, have.kind, choose_max_elements(len(want)), want)
    return ChangeMembers(name, new, old)


def record(operation: Operation, sets: dict[str, KernelSet]) -> None:
    """Record an executed operation in *sets*."""
    match operation:
        case MakeSet(name, kind, max_elements, want) | ReplaceSet(name, kind, max_elements, want):
            sets[name] = KernelSet(kind, max_elements, set(want))
        case ChangeMembers(name, add, remove):
            sets[name].elements.update(add)
            sets[name].elements.difference_update(remove)
        case DropSet(name):
            del sets[name]
        case _:
            assert_never(operation)


def parse_save(text: str, owner: str) -> tuple[dict[str, KernelSet], frozenset[str]]:
    """Parse the sets of *owner*, and abandoned shadow sets, from the output of ``ipset save``."""
    sets: dict[str, KernelSet] = {}
    leftovers = set()
    prefix, beside = f"{owner}-", f"{owner}~"
    for line in text.splitlines():
        verb, full, rest = f"{line}  ".split(" ", 2)
        if verb == "create" and full.startswith(beside):
            leftovers.add(full)
        elif not full.startswith(prefix):
            continue
        elif verb == "create":
            if (made := _parse_create(rest)) is not None:
                sets[full.removeprefix(prefix)] = made
        elif verb == "add" and (known := sets.get(full.removeprefix(prefix))) is not None:
            known.elements.add(normal_element(rest.split(" ", 1)[0]))
    return sets, frozenset(leftovers)


def _parse_create(rest: str) -> KernelSet | None:
    """Parse a set; None if it is of a kind that netfw does not make."""
    kind, *words = rest.split()
    options = dict(zip(words[::2], words[1::2], strict=False))
    if kind not in [known.value for known in SetType] or "family" not in options:
        return None
    family = 4 if options["family"] == "inet" else 6
    return KernelSet(SetKind(type=SetType(kind), family=family), int(options["maxelem"]))
