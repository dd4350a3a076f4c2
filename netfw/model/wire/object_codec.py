"""Objects on the wire, declared as tables of parts.

A :class:`ObjectCodec` is the table of one value class.  Its rows are *parts*: an
:class:`NamedField` is one name of the object, an :class:`Inline` is a value of its own whose names
are among the object's.  A field may have several parts (``project_id`` and ``tenant_id``): all are
written, any one may be read, and those that are present must agree.  A :class:`Derived` name
follows from the value.

One parse reports everything that is wrong with an object; contradictions between its fields are
checked once each field can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, Protocol, TypeVar

import attrs
from attrs import field, frozen

from netfw.errors import nearest
from netfw.model.values.validation import InvalidValue
from netfw.model.wire.codec import (
    ABSENT,
    Absent,
    Codec,
    CodecError,
    Json,
    Schema,
    describe,
    object_schema,
    or_null,
)
from netfw.model.wire.scalars import DOCUMENT

T = TypeVar("T")

SUGGESTIONS = 16
"""Unknown names that get a suggestion; the search for one takes time."""
REQUIRED = "is required"
TWICE = "is the short name of an attribute that is there, too; remove one of them"

Body = Mapping[Any, object]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_:.-]{1,64}")


class Field(Protocol):
    """The representation of one field of a value in an object."""

    @property
    def field(self) -> str:
        """The field of the value."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the object that hold it; messages use the first."""

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The schemas of these names."""

    def read(self, body: Body) -> Any | Absent:
        """Return the field's value, as far as *body* has it.

        :raises CodecError: the value is wrong.
        """

    def write(self, value: Any, body: dict[str, Json]) -> None:
        """Write the field's *value* to *body*."""


@frozen
class NamedField:
    """One name of an object, and its field: by default the field of the same name."""

    name: str
    codec: Codec[Any]
    field: str = field()

    @field.default
    def _field_of_that_name(self) -> str:
        return self.name

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        return {self.name: self.codec.schema}

    def read(self, body: Body) -> Any | Absent:
        if self.name not in body:
            return ABSENT
        try:
            return self.codec.parse(body[self.name])
        except ValueError as exc:
            raise CodecError(CodecError.within(self.name, exc)) from exc

    def write(self, value: Any, body: dict[str, Json]) -> None:
        rendered = self.codec.render(value)
        if not isinstance(rendered, Absent):
            body[self.name] = rendered


@frozen
class Inline:
    """A value whose names are among those of the object; all of them null is no value.

    *wrap* and *unwrap* turn the value into what the field holds and back, or into ``None`` when the
    field cannot be represented in this way.
    """

    field: str
    shape: ObjectCodec[Any]
    wrap: Callable[[Any], Any] = lambda value: value
    unwrap: Callable[[Any], Any | None] = lambda value: value

    @property
    def names(self) -> tuple[str, ...]:
        return self.shape.names

    @property
    def schemas(self) -> Mapping[str, Schema]:
        return {name: or_null(each) for name, each in self.shape.schemas.items()}

    def read(self, body: Body) -> Any | Absent:
        mine = {name: body[name] for name in self.names if name in body}
        if all(raw is None for raw in mine.values()):
            return ABSENT
        return self.wrap(self.shape.parse(mine))

    def write(self, value: Any, body: dict[str, Json]) -> None:
        inner = self.unwrap(value)
        if inner is not None:
            body.update(self.shape.render(inner))


@frozen
class Derived:
    """A name that follows from the value: written for convenience, checked when present."""

    name: str
    codec: Codec[Any]
    of: Callable[[Any], Any]

    def read(self, body: Body) -> Any | Absent:
        """Return what *body* has for it, if present.

        :raises CodecError: the value is wrong.
        """
        return NamedField(self.name, self.codec).read(body)


@frozen
class ObjectCodec(Generic[T]):
    """The table of one value class, which is read and written as a JSON object."""

    cls: type[T]
    parts: tuple[Field, ...]
    derived: tuple[Derived, ...] = ()
    rest: str | None = None
    """The field (a ``JsonDocument``) for names that no part has; without one they are refused."""
    names: tuple[str, ...] = field(init=False)
    _known: frozenset[str] = field(init=False)
    _required: frozenset[str] = field(init=False)

    @names.default
    def _all_names(self) -> tuple[str, ...]:
        names = [name for part in self.parts for name in part.names]
        return (*names, *(derived.name for derived in self.derived))

    @_known.default
    def _set_of_names(self) -> frozenset[str]:
        return frozenset(self.names)

    @_required.default
    def _without_default(self) -> frozenset[str]:
        fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(self.cls)  # type: ignore[arg-type]
        return frozenset(each.name for each in fields if each.default is attrs.NOTHING)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The schemas of all names."""
        found = {name: each for part in self.parts for name, each in part.schemas.items()}
        return {**found, **{each.name: each.codec.schema for each in self.derived}}

    @property
    def schema(self) -> Schema:
        needed = {each for each in self._required if self._path(each) in self._known}
        required = {self._path(each) for each in needed}
        return object_schema(self.schemas, required, more=self.rest is not None)

    def parse(
        self, raw: object, aliases: Collection[str] = (), given: Mapping[str, Any] | None = None
    ) -> T:
        """Return the value that *raw* describes.

        :param aliases: further names that the caller has replaced by those of the parts.
        :param given: values of fields that *raw* does not have.
        :raises ValueError: it is not an object.
        :raises CodecError: everything that is wrong within it.
        """
        if not isinstance(raw, Mapping):
            raise ValueError(f"not an object: {describe(raw)}")
        fields, problems = self._read(raw, given or {})
        claimed = self._read_derived(raw, problems)
        rest = {key: value for key, value in raw.items() if key not in self._known}
        if self.rest is None:
            problems |= self._unknown(rest, aliases)
        else:
            try:
                fields[self.rest] = DOCUMENT.parse(rest)
            except ValueError as exc:
                problems |= CodecError.within("", exc)
        if problems:
            raise CodecError(problems)
        value = self._make(fields)
        self._compare(value, claimed)
        return value

    def render(self, value: T) -> dict[str, Json]:
        """Return *value* as a JSON object."""
        body: dict[str, Json] = {}
        for part in self.parts:
            part.write(getattr(value, part.field), body)
        for derived in self.derived:
            rendered = derived.codec.render(derived.of(value))
            if not isinstance(rendered, Absent):
                body[derived.name] = rendered
        if self.rest is not None:
            body.update(getattr(value, self.rest).content())
        return body

    def _read(self, body: Body, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        fields: dict[str, Any] = dict(given)
        problems: dict[str, str] = {}
        tried: dict[str, Field] = {}
        for part in self.parts:
            try:
                value = part.read(body)
            except CodecError as exc:
                problems |= exc.problems
                tried.setdefault(part.field, part)
                continue
            if value is ABSENT:
                continue
            if part.field in fields and fields[part.field] != value:
                problems[part.names[0]] = f"contradicts {tried[part.field].names[0]}"
            fields[part.field] = value
            tried.setdefault(part.field, part)
        for name in self._required - tried.keys() - given.keys():
            problems[self._path(name)] = REQUIRED
        return fields, problems

    def _make(self, fields: dict[str, Any]) -> T:
        try:
            return self.cls(**fields)
        except InvalidValue as exc:
            raise CodecError({self._path(path): text for path, text in exc.problems}) from exc

    def _path(self, path: str) -> str:
        """Return the wire path of a path of the model: ``gateway`` is at ``gateway_ip``."""
        name = re.split(r"[.\[]", path, maxsplit=1)[0]
        part = next((part for part in self.parts if part.field == name), None)
        return path if part is None else part.names[0] + path[len(name) :]

    def _unknown(self, rest: Body, aliases: Collection[str]) -> dict[str, str]:
        problems: dict[str, str] = {}
        names = (*aliases, *self.names)
        for count, key in enumerate(rest):
            plain = isinstance(key, str) and _PLAIN_KEY.fullmatch(key)
            near = nearest(key, names) if plain and count < SUGGESTIONS else ""
            text = TWICE if key in aliases else f"unknown attribute{near}"
            problems[key if plain else describe(key)] = text
        return problems

    def _read_derived(self, body: Body, problems: dict[str, str]) -> dict[Derived, Any]:
        given: dict[Derived, Any] = {}
        for derived in self.derived:
            try:
                given[derived] = derived.read(body)
            except CodecError as exc:
                problems |= exc.problems
        return given

    def _compare(self, value: T, given: Mapping[Derived, Any]) -> None:
        expected = {derived: derived.of(value) for derived in given}
        problems = {
            derived.name: f"{describe(claim)}, but the rest says {expected[derived]}"
            for derived, claim in given.items()
            if claim is not ABSENT and claim != expected[derived]
        }
        if problems:
            raise CodecError(problems)


@frozen
class Tagged:
    """One of several shapes, selected by the word under *tag*."""

    tag: str
    shapes: Mapping[str, ObjectCodec[Any]]

    @property
    def schema(self) -> Schema:
        return {
            "oneOf": [
                {
                    **shape.schema,
                    "properties": {self.tag: {"const": word}, **shape.schemas},
                    "required": [self.tag, *shape.schema.get("required", ())],
                }
                for word, shape in self.shapes.items()
            ]
        }

    def parse(self, raw: object) -> Any:
        if not isinstance(raw, Mapping):
            raise ValueError(f"not an object: {describe(raw)}")
        if self.tag not in raw:
            raise CodecError({self.tag: REQUIRED})
        word = raw[self.tag]
        shape = self.shapes.get(word) if isinstance(word, str) else None
        if shape is None:
            known = f"is none of {', '.join(self.shapes)}"
            raise CodecError({self.tag: f"{describe(word)} {known}"})
        return shape.parse({key: value for key, value in raw.items() if key != self.tag})

    def render(self, value: Any) -> Json:
        for word, shape in self.shapes.items():
            if type(value) is shape.cls:
                return {self.tag: word, **shape.render(value)}
        raise TypeError(f"no shape for a {type(value).__name__}")
