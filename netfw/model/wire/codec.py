"""Codecs: each parses and renders one value on the wire.

A codec's ``parse`` takes anything and raises ``ValueError`` with a sentence, or :class:`CodecError`
with several and where they are.  Its ``render`` returns only str, int, bool, None, list and dict.
Its ``schema`` is the JSON Schema of its values; ``parse`` may accept more, as clients write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from attrs import field, frozen

from netfw.model.values.text_validation import quote

T = TypeVar("T")

Json = str | int | bool | None | list[Any] | dict[str, Any]
Schema = Mapping[str, Any]
"""A JSON Schema."""
NULL: Final[Schema] = {"type": "null"}


class Absent:
    """The type of ``ABSENT``: a value that is omitted on the wire."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()

LIST_LENGTH = 4096
MAX_PROBLEMS = 16
"""Problems of a list that are reported; searching for similar names takes time."""


class CodecError(ValueError):
    """The problems within a value, by the path from that value."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{path}: {text}" for path, text in problems.items()))

    @classmethod
    def within(cls, step: str, error: ValueError) -> dict[str, str]:
        """Return the problems of *error*, raised at *step*, as paths that begin with that step."""
        if not isinstance(error, CodecError):
            return {step: str(error)}
        return {join(step, path): text for path, text in error.problems.items()}


def join(step: str, path: str) -> str:
    """Return *path* continued from *step*: ``join("fixed_ips", "[0].ip_address")``."""
    if not path or not step:
        return step or path
    return f"{step}{path}" if path.startswith("[") else f"{step}.{path}"


class Codec(Protocol[T]):
    """Reads and writes values of one type."""

    @property
    def schema(self) -> Schema: ...

    def parse(self, raw: object) -> T: ...

    def render(self, value: T) -> Json | Absent: ...


@frozen
class Scalar(Generic[T]):
    """A codec made of two functions; an empty schema is that of any value."""

    parse: Callable[[object], T]
    render: Callable[[T], Json | Absent]
    schema: Schema = field(factory=dict, eq=False, repr=False)


@frozen
class Nullable(Generic[T]):
    """The value or null; null stands for *instead*.  With *silent*, ``None`` is omitted."""

    codec: Codec[T]
    instead: Any = None
    silent: bool = field(default=False, kw_only=True)

    @property
    def schema(self) -> Schema:
        return or_null(self.codec.schema)

    def parse(self, raw: object) -> T | Any:
        return self.instead if raw is None else self.codec.parse(raw)

    def render(self, value: T | None) -> Json | Absent:
        if value is None:
            return ABSENT if self.silent else None
        return self.codec.render(value)


@frozen
class Listed(Generic[T]):
    """A list; *gather* builds the model's collection.  With *silent*, an empty one is omitted."""

    codec: Codec[T]
    gather: Callable[[Iterable[T]], Any] = tuple
    limit: int = LIST_LENGTH
    silent: bool = field(default=False, kw_only=True)

    @property
    def schema(self) -> Schema:
        return {"type": "array", "items": self.codec.schema, "maxItems": self.limit}

    def parse(self, raw: object) -> Any:
        if not isinstance(raw, list | tuple):
            raise ValueError(f"not a list: {describe(raw)}")
        if len(raw) > self.limit:
            raise ValueError(f"more than {self.limit} entries")
        values: list[T] = []
        problems: dict[str, str] = {}
        for position, item in enumerate(raw):
            try:
                values.append(self.codec.parse(item))
            except ValueError as exc:
                problems |= CodecError.within(f"[{position}]", exc)
                if len(problems) >= MAX_PROBLEMS and position + 1 < len(raw):
                    problems[f"[{position + 1}...]"] = "not checked after so many problems"
                    break
        if problems:
            raise CodecError(problems)
        return self.gather(values)

    def render(self, value: Iterable[T]) -> Json | Absent:
        rendered = [self.codec.render(item) for item in value]
        if isinstance(value, frozenset):
            rendered.sort(key=str)
        return rendered if rendered or not self.silent else ABSENT


@frozen
class Several:
    """A list that is rendered only if it has several items; one alone has another form."""

    codec: Listed[Any]

    @property
    def schema(self) -> Schema:
        return self.codec.schema

    def parse(self, raw: object) -> Any:
        return self.codec.parse(raw)

    def render(self, value: tuple[Any, ...]) -> Json | Absent:
        return self.codec.render(value) if len(value) > 1 else ABSENT


def or_null(schema: Schema) -> Schema:
    """Return the schema of null and the values of *schema*."""
    if not schema or NULL in schema.get("anyOf", ()):
        return schema
    return {"anyOf": [schema, NULL]}


def object_schema(
    properties: Mapping[str, Schema], required: Iterable[str] = (), *, more: bool = False
) -> Schema:
    """Return the schema of objects; *more*: with any other names."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if needed := sorted(required):
        schema["required"] = needed
    return schema if more else {**schema, "additionalProperties": False}


def describe(raw: object) -> str:
    """Return *raw* as bounded text for a message, of any type and size."""
    if raw is None:
        return "null"
    if isinstance(raw, str):
        return quote(raw)
    if isinstance(raw, bool | float):
        return repr(raw)
    if isinstance(raw, int):
        return repr(raw) if raw.bit_length() < 64 else "a number too large"
    if isinstance(raw, list | tuple):
        return "a list"
    return "an object" if isinstance(raw, Mapping) else f"a {type(raw).__name__}"
