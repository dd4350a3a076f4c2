"""Codecs of what requests say, where it differs from what resources are.

A request may name a fixed address by its subnet alone, or write ``"True"`` for true.  What these
codecs parse is in the form of the API already; rendering changes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from netfw.errors import nearest
from netfw.model.text_validation import check_text
from netfw.model.wire.codec import ABSENT, Absent, Codec, Faulty, Json, Scalar, describe
from netfw.model.wire.scalars import text

_FLAGS: Mapping[object, bool] = {
    word: word in ("true", "1", "t", "on", "y", "yes")
    for word in ("true", "false", "1", "0", "t", "f", "on", "off", "y", "n", "yes", "no")
}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_:.-]{1,64}")


def normalised(codec: Codec[Any], raw: object) -> Json | Absent:
    """*raw* in the form of the API.

    :raises ValueError: it cannot be read.
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


FLAG: Scalar[bool] = Scalar(_parse_flag, bool)
"""True or false, also as the words and numbers that clients write."""


def long_text(limit: int) -> Scalar[str]:
    """One line of text that may be longer than names are."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"not text: {describe(raw)}")
        check_text(raw, limit)
        return raw

    return Scalar(parse, str)


def checked(codec: Codec[Any], check: Callable[[Any], object]) -> Scalar[Any]:
    """What *codec* reads and *check*, which raises ``ValueError``, lets pass."""

    def parse(raw: object) -> Any:
        value = codec.parse(raw)
        check(value)
        return value

    return Scalar(parse, codec.render)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@frozen
class Record:
    """An object of which a request may say a part; what it says is normalised."""

    codecs: Mapping[str, Codec[Any]]
    required: frozenset[str] = field(default=frozenset(), converter=_names)
    any_of: tuple[str, ...] = ()
    """One of these at least must be said."""

    def parse(self, raw: object) -> dict[str, Json]:
        if not isinstance(raw, Mapping):
            raise ValueError(f"not an object: {describe(raw)}")
        said: dict[str, Json] = {}
        faults = dict.fromkeys(sorted(self.required - raw.keys()), "is required")
        for name, value in raw.items():
            codec = self.codecs.get(name)
            if codec is None:
                faults |= unknown(name, self.codecs)
                continue
            try:
                rendered = normalised(codec, value)
            except ValueError as exc:
                faults |= Faulty.within(name, exc)
                continue
            if not isinstance(rendered, Absent):
                said[name] = rendered
        if self.any_of and not any(name in raw for name in self.any_of):
            faults[self.any_of[0]] = f"is required, or {' or '.join(self.any_of[1:])}"
        if faults:
            raise Faulty(faults)
        return said

    def render(self, value: dict[str, Json]) -> Json:
        return value


def unknown(name: object, known: Mapping[str, object]) -> dict[str, str]:
    """The fault of a name that is none of *known*."""
    if isinstance(name, str) and _PLAIN_KEY.fullmatch(name):
        return {name: f"unknown attribute{nearest(name, known)}"}
    return {describe(name): "unknown attribute"}


@frozen
class Either:
    """What the first codec reads, or the second; messages are the first one's."""

    first: Codec[Any]
    second: Codec[Any]

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
    """Null where there is nothing to say; it is passed on as *instead*."""

    codec: Codec[Any]
    instead: Json | Absent = ABSENT

    def parse(self, raw: object) -> Json | Absent:
        return self.instead if raw is None else normalised(self.codec, raw)

    def render(self, value: Json | Absent) -> Json | Absent:
        return value


NAME = text()
"""Names and descriptions."""
