"""Free-form data that netfw stores and passes on without reading it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

from attrs import frozen

from netfw.model.values.text_validation import check_text, quote
from netfw.model.values.validation import InvalidValue, Problem

DEPTH = 8
NODES = 1024
LENGTH = 4095
"""Longest text within.  Fractions are refused: two writers seldom agree on their digits."""

_PLAIN = re.compile(r"[A-Za-z0-9_:-]{1,64}")
_NOTHING: Mapping[str, object] = MappingProxyType({})


def _canonical(content: Mapping[str, object]) -> str:
    problems: list[Problem] = []
    for count, (path, text) in enumerate(_visit(content, "", DEPTH)):
        if count >= NODES:
            raise ValueError(f"more than {NODES} values within")
        if text:
            problems.append((path, text))
    if problems:
        raise InvalidValue(*problems)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=dict)


@frozen(init=False)
class JsonDocument:
    """A JSON object as a value: it can be compared, hashed and kept, and never changes.

    ``JsonDocument({"pci_slot": "0000:03:00.1"})``; it is small, shallow and without control
    characters.
    """

    text: str
    """Canonical: sorted keys, no spaces, plain ASCII."""

    def __init__(self, content: Mapping[str, object] = _NOTHING) -> None:
        self.__attrs_init__(_canonical(content) if content else "{}")

    def content(self) -> dict[str, Any]:
        """Return a copy of the content, which the caller may change."""
        return cast(dict[str, Any], json.loads(self.text)) if self else {}

    def __bool__(self) -> bool:
        return self.text != "{}"


def _visit(raw: object, path: str, depth: int) -> Iterator[Problem]:
    """Yield every value within *raw*: its path, and what is wrong with it, if anything."""
    if depth < 0:
        yield path, f"nested more than {DEPTH} deep"
    elif isinstance(raw, Mapping):
        yield path, ""
        for key, value in raw.items():
            name = _name(key)
            step = f"{path}.{name}" if path else name
            yield step, _text_problem(key)
            yield from _visit(value, step, depth - 1)
    elif isinstance(raw, list | tuple):
        yield path, ""
        for position, value in enumerate(raw):
            yield from _visit(value, f"{path}[{position}]", depth - 1)
    elif isinstance(raw, int):
        yield path, "" if raw.bit_length() < 64 else "a number too large"
    else:
        yield path, "" if raw is None else _text_problem(raw)


def _name(key: object) -> str:
    """Return *key* as a step of a path: unchanged if it is plain, else quoted."""
    if not isinstance(key, str):
        return f"a {type(key).__name__}"
    return key if _PLAIN.fullmatch(key) else quote(key)


def _text_problem(raw: object) -> str:
    if not isinstance(raw, str):
        return f"neither text nor a whole number: a {type(raw).__name__}"
    try:
        check_text(raw, LENGTH)
    except ValueError as exc:
        return str(exc)
    return ""
