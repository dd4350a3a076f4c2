"""Builds plain values from YAML events, without recursion: a file cannot overflow a stack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml  # type: ignore[import-untyped]
from attrs import define, field, frozen

from netfw.model.values.text_validation import quote
from netfw.state.file.diagnostics import FileRefused

Located = tuple[str, int, str]
"""A path, its line, and the problem there."""

_TEXT: Final = "tag:yaml.org,2002:str"
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_WORDS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_:-]{1,64}", re.ASCII)


@frozen
class Built:
    """A value, and the problems of its notation."""

    value: object
    errors: tuple[Located, ...]


def build(text: str, values: int, depth: int, lines: dict[str, int] | None = None) -> Built:
    """Parse a text in YAML; add the line of every path to *lines*, if given.

    :raises Refused: it is not YAML, exceeds a limit, or uses an unsupported feature.
    """
    builder = _Builder(values, depth, lines)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise FileRefused(f"is no YAML: {_describe(exc)}", line=mark and mark.line + 1) from exc
    except yaml.YAMLError as exc:
        raise FileRefused(f"is no YAML: {str(exc).splitlines()[0]}") from exc
    return Built(builder.root, tuple(builder.errors))


def _describe(error: Any) -> str:
    return ", ".join(part for part in (error.problem, error.context) if part)


@define
class _Open:
    """A list or mapping that is under construction."""

    value: Any
    step: str
    """Its path step within the parent."""
    anchor: str | None
    weight: int = 1
    key: str | None = None
    """The key of a mapping whose value comes next."""


@define
class _Builder:
    _values: int
    _depth: int
    _lines: dict[str, int] | None
    root: object = None
    errors: list[Located] = field(factory=list)
    _open: list[_Open] = field(factory=list)
    _anchors: dict[str, tuple[object, int]] = field(factory=dict)
    _documents: int = 0

    def take(self, event: Any) -> None:
        line: int = event.start_mark.line + 1
        match event:
            case yaml.ScalarEvent():
                self._scalar(event, line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event, line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self._open.pop()
                self._put(done.value, done.weight, done.anchor, done.step)
            case yaml.AliasEvent():
                self._alias(event.anchor, line)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise FileRefused("has a second document (---); there is one", line=line)

    def _scalar(self, event: Any, line: int) -> None:
        if event.tag not in (None, "!", _TEXT):
            raise FileRefused(f"the tag {quote(event.tag)} is not taken", self._path(), line)
        plain = not event.style and event.tag is None
        if self._wants_key():
            self._key(event.value, line, plain)
        else:
            step = self._step(line)
            self._put(_resolve_scalar(event.value) if plain else event.value, 1, event.anchor, step)

    def _begin(self, event: Any, line: int) -> None:
        if event.tag not in (None, "!"):
            raise FileRefused(f"the tag {quote(event.tag)} is not taken", self._path(), line)
        if self._wants_key():
            raise FileRefused("a key must be a text", self._path(), line)
        if len(self._open) >= self._depth:
            raise FileRefused(f"is nested more than {self._depth} deep", self._path(), line)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, self._step(line), event.anchor))

    def _alias(self, name: str, line: int) -> None:
        if name not in self._anchors:
            raise FileRefused(f"*{name} refers to nothing before it", self._path(), line)
        value, weight = self._anchors[name]
        if self._wants_key():
            raise FileRefused("a key must be a text, no alias", self._path(), line)
        self._put(value, weight, None, self._step(line))

    def _wants_key(self) -> bool:
        return (
            bool(self._open)
            and isinstance(self._open[-1].value, dict)
            and self._open[-1].key is None
        )

    def _key(self, key: str, line: int, plain: bool) -> None:
        top = self._open[-1]
        if plain and key == "<<":
            raise FileRefused("merge keys (<<) are not taken; write it out", self._path(), line)
        top.key = key
        if key in top.value:
            self.errors.append((self._path(_quoted_key(key)), line, "is there twice"))
        elif self._lines is not None:
            self._lines[self._path(_quoted_key(key))] = line

    def _step(self, line: int) -> str:
        """Return the path step of the next value; record the line of an entry of a list."""
        if not self._open:
            return ""
        top = self._open[-1]
        step = f"[{len(top.value)}]" if top.key is None else _quoted_key(top.key)
        if self._lines is not None and top.key is None:
            self._lines[self._path(step)] = line
        return step

    def _put(self, value: object, weight: int, anchor: str | None, step: str) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, weight
        if not self._open:
            self.root = value
            return
        top = self._open[-1]
        top.weight += weight
        if top.weight > self._values:
            raise FileRefused(f"has more than {self._values} values", self._path(step))
        if top.key is None:
            top.value.append(value)
        else:
            top.value[top.key], top.key = value, None

    def _path(self, *last: str) -> str:
        path = ""
        for step in (*(parent.step for parent in self._open), *last):
            path += step if step.startswith("[") or not path else f".{step}"
        return path


def _quoted_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else quote(key)


def _resolve_scalar(text: str) -> str | int | bool | None:
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.fullmatch(text) else text
