"""Codecs of request values that differ from those of resources.

A request may name a fixed address by its subnet alone, or write ``"True"`` for true.  These codecs
parse into the form of the API; rendering returns it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from netfw.errors import nearest
from netfw.model.values.text_validation import check_text
from netfw.model.wire.codec import (
    ABSENT,
    Absent,
    Codec,
    CodecError,
    Json,
    Scalar,
    Schema,
    describe,
    object_schema,
    or_null,
)
from netfw.model.wire.scalars import BOOLEAN, text

_FLAGS: Mapping[object, bool] = {
    word: word in ("true", "1", "t", "on", "y", "yes")
    for word in ("true", "false", "1", "0", "t", "f", "on", "off", "y", "n", "yes", "no")
}
MAX_UNKNOWN = 16
"""Unknown names that are reported; searching for similar names takes time."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_:.-]{1,64}")


def normalised(codec: Codec[Any], raw: object) -> Json | Absent:
    """Return *raw* in the form of the API.

    :raises ValueError: *raw* is no value of the codec.
    """
    return codec.render(codec.parse(raw))


def _parse_flag(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int) and raw in (0, 1):
        return bool(raw)
    word = raw.lower() if isinstance(raw, str) and len(raw) < 8 else None
    if word not in _FLAGS:
        raise ValueError(f"neither true nor false: {describe(raw)}")
    return _FLAGS[word]


FLAG: Scalar[bool] = Scalar(_parse_flag, bool, BOOLEAN.schema)
"""A boolean, also as the words and numbers that clients send."""


def long_text(limit: int) -> Scalar[str]:
    """Return a codec of one line of text of up to *limit* characters."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"not text: {describe(raw)}")
        check_text(raw, limit)
        return raw

    return Scalar(parse, str, {"type": "string", "maxLength": limit})


def checked(codec: Codec[Any], check: Callable[[Any], object]) -> Scalar[Any]:
    """Return *codec* with *check*, which raises ``ValueError``, after parsing."""

    def parse(raw: object) -> Any:
        value = codec.parse(raw)
        check(value)
        return value

    return Scalar(parse, codec.render, codec.schema)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@frozen
class Record:
    """An object that may be partial; its values are normalised."""

    codecs: Mapping[str, Codec[Any]]
    required: frozenset[str] = field(default=frozenset(), converter=_names)
    any_of: tuple[str, ...] = ()
    """Names of which at least one is required."""

    @property
    def schema(self) -> Schema:
        names = {name: codec.schema for name, codec in self.codecs.items()}
        schema = object_schema(names, self.required)
        if not self.any_of:
            return schema
        return {**schema, "anyOf": [{"required": [name]} for name in self.any_of]}

    def parse(self, raw: object) -> dict[str, Json]:
        if not isinstance(raw, Mapping):
            raise ValueError(f"not an object: {describe(raw)}")
        values: dict[str, Json] = {}
        problems = dict.fromkeys(sorted(self.required - raw.keys()), "is required")
        for name, value in raw.items():
            codec = self.codecs.get(name)
            if codec is None:
                problems |= unknown(name, self.codecs, len(problems))
                continue
            try:
                rendered = normalised(codec, value)
            except ValueError as exc:
                problems |= CodecError.within(name, exc)
                continue
            if not isinstance(rendered, Absent):
                values[name] = rendered
        if self.any_of and not any(name in raw for name in self.any_of):
            problems[self.any_of[0]] = f"is required, or {' or '.join(self.any_of[1:])}"
        if problems:
            raise CodecError(problems)
        return values

    def render(self, value: dict[str, Json]) -> Json:
        return value


def unknown(name: object, known: Mapping[str, object], count: int) -> dict[str, str]:
    """Return the problem of a name that is none of *known*, after *count* other problems."""
    if count >= MAX_UNKNOWN:
        return {"...": "and more that are unknown"}
    if isinstance(name, str) and _PLAIN_KEY.fullmatch(name):
        return {name: f"unknown attribute{nearest(name, known)}"}
    return {describe(name): "unknown attribute"}


@frozen
class Either:
    """The first codec, or else the second; errors are those of the first."""

    first: Codec[Any]
    second: Codec[Any]

    @property
    def schema(self) -> Schema:
        return {"anyOf": [self.first.schema, self.second.schema]}

    def parse(self, raw: object) -> Json | Absent:
        try:
            return normalised(self.first, raw)
        except ValueError as exc:
            try:
                return normalised(self.second, raw)
            except ValueError:
                raise exc from None

    def render(self, value: Json | Absent) -> Json | Absent:
        return value


@frozen
class Null:
    """A codec that accepts null, which becomes *instead*."""

    codec: Codec[Any]
    instead: Json | Absent = ABSENT

    @property
    def schema(self) -> Schema:
        return or_null(self.codec.schema)

    def parse(self, raw: object) -> Json | Absent:
        return self.instead if raw is None else normalised(self.codec, raw)

    def render(self, value: Json | Absent) -> Json | Absent:
        return value


NAME = text()
"""Names and descriptions."""
