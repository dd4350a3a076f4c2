"""Names instead of ids: how entries get ids, and how references by name find them.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID, uuid5

from attrs import define, field, frozen

from netfw.errors import nearest
from netfw.model.resource import Kind, Ref
from netfw.model.text_validation import quote
from netfw.model.wire.codec import join
from netfw.model.wire.scalars import ID
from netfw.state.file.schema import Reference

NAMESPACE: Final = UUID("8c9d6f0e-5f5b-5d0a-9a39-0d6b7a1f2c44")
"""Ids of names are the same in every process and release: flows and devices carry them."""

_LENGTHS: Final = (32, 36)
"""Of an id, without hyphens and with them."""

Body = dict[str, Any]
Found = tuple[str, str]
"""A path within an entry, and what is wrong there."""


def as_id(text: object) -> UUID | None:
    """*text* as an id, if it is one; else it is a name."""
    if not isinstance(text, str) or len(text) not in _LENGTHS:
        return None
    try:
        return UUID(str(ID.parse(text)))
    except ValueError:
        return None


def id_of(kind: Kind, name: str) -> UUID:
    """The id of what is called *name*."""
    return uuid5(NAMESPACE, f"{kind}/{name}")


def id_by_content(kind: Kind, body: Mapping[str, Any], *context: str) -> UUID:
    """The id of what has no name: it lasts while nothing of it changes."""
    content = json.dumps(body, sort_keys=True, default=str)
    return uuid5(NAMESPACE, "/".join((kind, *context, content)))


@frozen
class Resolved:
    """A place in a body, and what it refers to or what is wrong with it."""

    path: str
    target: Ref | None
    problem: str = ""


@define
class Index:
    """What the entries of all files are called."""

    refs: set[Ref] = field(factory=set)
    _named: dict[Kind, dict[str, set[UUID]]] = field(factory=dict)

    def add(self, kind: Kind, id: UUID, *names: object) -> None:
        """Remember an entry under its names, as far as they are names."""
        self.refs.add(Ref(kind, id))
        for name in names:
            if isinstance(name, str) and name:
                self._named.setdefault(kind, {}).setdefault(name, set()).add(id)

    def find(self, kind: Kind, name: str) -> UUID:
        """The id of the one entry of *kind* that is called *name*; an id stands for itself.

        :raises ValueError: there is none, or several.
        """
        if (id := as_id(name)) is not None:
            return id
        names = self._named.get(kind, {})
        found = names.get(name, set())
        if len(found) == 1:
            return next(iter(found))
        word = kind.replace("_", " ")
        if found:
            raise ValueError(f"{len(found)} entries are called {quote(name)}; give the id")
        near = nearest(name, names) if len(name) < 64 else ""
        raise ValueError(f"there is no {word} {quote(name)} in the file{near}")


def rename(body: Body, reference: Reference) -> Iterator[Found]:
    """Put the API's name in place of the short one; tell where which was said."""
    name, short = reference.path[-1], reference.short
    for holder, path in _holders(body, reference.path[:-1], ""):
        if short is not None and type(holder) is dict and short in holder and name not in holder:
            holder[name] = holder.pop(short)
            yield join(path, name), join(path, short)


def resolve(body: Body, reference: Reference, index: Index) -> Iterator[Resolved]:
    """Put ids in place of the names in *body* that this *reference* is about.

    What is no text is left alone: it is refused when the entry is read.
    """
    for holder, path in _holders(body, reference.path[:-1], ""):
        for key, where in _places(holder, reference.path[-1], path):
            name = holder[key]
            if not isinstance(name, str):
                continue
            try:
                id = index.find(reference.kind, name)
            except ValueError as exc:
                holder[key] = str(NAMESPACE)  # told once is enough
                yield Resolved(where, None, str(exc))
            else:
                holder[key] = str(id)
                yield Resolved(where, Ref(reference.kind, id))


def _holders(value: Any, steps: tuple[str, ...], path: str) -> Iterator[tuple[Any, str]]:
    if not steps:
        yield value, path
        return
    for key, where in _places(value, steps[0], path):
        yield from _holders(value[key], steps[1:], where)


def _places(holder: Any, step: str, path: str) -> list[tuple[Any, str]]:
    if step == "*":
        return [(n, f"{path}[{n}]") for n in range(len(holder))] if type(holder) is list else []
    return [(step, join(path, step))] if type(holder) is dict and step in holder else []
