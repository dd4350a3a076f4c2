"""Parses a file into plain values: dict, list, str, int, bool and None.  Pure.

YAML is built from events, for three reasons.  The result has only plain values.  Large or deep
files and alias bombs are refused before they are built.  And scalars are those of the YAML 1.2 core
schema without floats, so that ``12:34:56:00:00:01`` is a MAC address and ``no`` is text.

A duplicate key is an error in YAML and in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from attrs import frozen

from netfw.model.values.text_validation import quote
from netfw.state.file.diagnostics import Diagnostic, FileRefused

if TYPE_CHECKING:
    from netfw.state.file.safe_yaml import Built

Lines = Mapping[str, int]
"""The line of each path."""
SIZE: Final = 16 * 2**20
"""Maximum number of bytes of a file."""
VALUES: Final = 1_000_000
"""Maximum number of values of a file, with aliases expanded."""
DEPTH: Final = 32

_HALF = re.compile("[\ud800-\udfff]")


@frozen(kw_only=True)
class Parsed:
    """The value of a file, or its errors."""

    value: object = None
    errors: tuple[Diagnostic, ...] = ()


def parse(name: str, data: bytes) -> Parsed:
    """Parse *data*: as JSON if *name* ends in ``.json``, else as YAML."""
    text, problem = _decode(data)
    if problem:
        return _refused(name, problem)
    try:
        if name.endswith(".json"):
            return Parsed(value=_from_json(text))
        built = _build_yaml(text)
    except FileRefused as exc:
        return Parsed(
            errors=(Diagnostic(file=name, path=exc.path, line=exc.line, problem=str(exc)),)
        )
    errors = (
        Diagnostic(file=name, path=path, line=line, problem=problem)
        for path, line, problem in built.errors
    )
    return Parsed(value=built.value, errors=tuple(errors))


def lines_of(data: bytes) -> Lines:
    """Return the line of every path in *data*, as far as it can be parsed; for diagnostics."""
    text, problem = _decode(data)
    lines: dict[str, int] = {}
    if not problem:
        try:
            _build_yaml(text, lines)
        except FileRefused:
            return lines
    return lines


def _build_yaml(text: str, lines: dict[str, int] | None = None) -> Built:
    # PyYAML takes 20 ms of CPU to import; files in JSON do without.
    from netfw.state.file.safe_yaml import build

    return build(text, values=VALUES, depth=DEPTH, lines=lines)


def line_at(lines: Lines, path: str) -> int | None:
    """Return the line of *path*, or of its nearest parent that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = re.sub(r"(\.[^.\[]*|\[[^.\[]*|^[^.\[]*)$", "", path)
    return None


def _decode(data: bytes) -> tuple[str, str]:
    if len(data) > SIZE:
        return "", f"is larger than {SIZE // 2**20} MiB"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        return "", f"is not UTF-8 (byte {exc.start})"
    if not text.strip():
        return "", "is empty; it is taken for half-written (write {} to state nothing)"
    return text, ""


def _from_json(text: str) -> object:
    try:
        value: object = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
    except FileRefused:
        raise
    except json.JSONDecodeError as exc:
        raise FileRefused(f"is no JSON: {exc.msg}", line=exc.lineno) from exc
    except RecursionError as exc:
        raise FileRefused(f"is nested more than {DEPTH} deep") from exc
    except ValueError as exc:  # a number of thousands of digits
        raise FileRefused(f"is no JSON: {exc}") from exc
    _check_limits(value)
    return value


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, inner in pairs:
        if key in value:
            raise FileRefused(f"the key {quote(key)} is twice in one object")
        value[key] = inner
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise FileRefused(f"{word} is no number that JSON has")


def _check_limits(value: object) -> None:
    """Refuse a value that is too deep, without recursion, or has lone surrogates."""
    level, depth = [value], 0
    while level:
        if depth > DEPTH:
            raise FileRefused(f"is nested more than {DEPTH} deep")
        for item in level:
            if isinstance(item, str) and not item.isascii() and _HALF.search(item):
                raise FileRefused(f"{quote(item)} has half a character (a lone surrogate)")
        level = [inner for outer in level for inner in _children(outer)]
        depth += 1


def _children(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _refused(name: str, problem: str) -> Parsed:
    return Parsed(errors=(Diagnostic(file=name, problem=problem),))
