"""Ids of entries, and resolution of references by name.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID, uuid5

from attrs import define, field, frozen

from netfw.errors import nearest
from netfw.model.resource import Kind, Ref
from netfw.model.values.text_validation import quote
from netfw.model.wire.codec import join
from netfw.model.wire.scalars import ID
from netfw.state.file.schema import Reference

NAMESPACE: Final = UUID("8c9d6f0e-5f5b-5d0a-9a39-0d6b7a1f2c44")
"""Namespace of ids made from names; constant, since flows and devices contain the ids."""

_LENGTHS: Final = (32, 36)
"""Lengths of an id, without hyphens and with them."""

Body = dict[str, Any]
Found = tuple[str, str]
"""A path within an entry, and the problem there."""


def as_id(text: object) -> UUID | None:
    """Return *text* as an id; ``None``: it is a name."""
    if not isinstance(text, str) or len(text) not in _LENGTHS:
        return None
    try:
        return UUID(str(ID.parse(text)))
    except ValueError:
        return None


def id_of(kind: Kind, name: str) -> UUID:
    """Return the id of the entry with a name."""
    return uuid5(NAMESPACE, f"{kind}/{name}")


def address_scope_id(name: str) -> UUID:
    """Return the id of an address scope, which is its name and no entry."""
    return as_id(name) or uuid5(NAMESPACE, f"address_scope/{name}")


def id_by_content(kind: Kind, body: Mapping[str, Any], *context: str) -> UUID:
    """Return the id of an entry without a name; it changes with the content."""
    content = json.dumps(body, sort_keys=True, default=str)
    return uuid5(NAMESPACE, "/".join((kind, *context, content)))


@frozen
class Resolved:
    """A reference in a body: its path, and its target or the problem."""

    path: str
    target: Ref | None
    problem: str = ""


@define
class NameIndex:
    """The names of the entries of all files."""

    refs: set[Ref] = field(factory=set)
    _named: dict[Kind, dict[str, set[UUID]]] = field(factory=dict)

    def add(self, kind: Kind, id: UUID, *names: object) -> None:
        """Add an entry under those *names* that are texts."""
        self.refs.add(Ref(kind, id))
        for name in names:
            if isinstance(name, str) and name:
                self._named.setdefault(kind, {}).setdefault(name, set()).add(id)

    def find(self, kind: Kind, name: str) -> UUID:
        """Return the id of the one entry of *kind* with a name; an id is returned as it is.

        :raises ValueError: there is none, or several.
        """
        if (id := as_id(name)) is not None:
            return id
        names = self._named.get(kind, {})
        ids = names.get(name, set())
        if len(ids) == 1:
            return next(iter(ids))
        word = kind.replace("_", " ")
        if ids:
            raise ValueError(f"{len(ids)} entries are called {quote(name)}; give the id")
        near = nearest(name, names) if len(name) < 64 else ""
        raise ValueError(f"there is no {word} {quote(name)} in the file{near}")


def rename(body: Body, reference: Reference) -> Iterator[Found]:
    """Replace short names by those of the API; yield the new and the old path of each."""
    name, short = reference.path[-1], reference.short
    for holder, path in _holders(body, reference.path[:-1], ""):
        if short is not None and type(holder) is dict and short in holder and name not in holder:
            holder[name] = holder.pop(short)
            yield join(path, name), join(path, short)


def resolve(body: Body, reference: Reference, index: NameIndex) -> Iterator[Resolved]:
    """Replace names by ids where *reference* applies to *body*; yield the references.

    A value that is no text is left: parsing the entry refuses it.
    """
    for holder, path in _holders(body, reference.path[:-1], ""):
        for key, where in _locations(holder, reference.path[-1], path):
            name = holder[key]
            if not isinstance(name, str):
                continue
            try:
                id = index.find(reference.kind, name)
            except ValueError as exc:
                holder[key] = str(NAMESPACE)  # reported here, not again by the parser
                yield Resolved(where, None, str(exc))
            else:
                holder[key] = str(id)
                yield Resolved(where, Ref(reference.kind, id))


def _holders(value: Any, steps: tuple[str, ...], path: str) -> Iterator[tuple[Any, str]]:
    if not steps:
        yield value, path
        return
    for key, where in _locations(value, steps[0], path):
        yield from _holders(value[key], steps[1:], where)


def _locations(holder: Any, step: str, path: str) -> list[tuple[Any, str]]:
    if step == "*":
        return [(n, f"{path}[{n}]") for n in range(len(holder))] if type(holder) is list else []
    return [(step, join(path, step))] if type(holder) is dict and step in holder else []
