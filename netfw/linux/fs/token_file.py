"""Token files: one token per line, as words with an optional comment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from netfw.errors import ConfigError

T = TypeVar("T")


def parse_token_file(
    text: str,
    path: str,
    parse_line: Callable[[list[str]], tuple[str, T]],
    *,
    key: str,
    inline_comments: bool = False,
) -> tuple[T, ...]:
    """Return the tokens of a file in their order.

    *parse_line* gets the words of a line and returns its key, which is unique in the file, and the
    token; it raises ``ValueError`` for a wrong line.  *key* names the key in messages.  A line that
    begins with ``#`` is a comment; with *inline_comments*, ``#`` begins one anywhere in a line.

    :raises ConfigError: names the file and the line, without quoting the line.
    """
    tokens: dict[str, T] = {}
    lines: dict[str, int] = {}
    for number, words in _lines(text, inline_comments):
        try:
            name, token = parse_line(words)
            if name in lines:
                raise ValueError(f"has the {key} of line {lines[name]}")
        except ValueError as exc:
            raise ConfigError(f"{path}, line {number}: {exc}") from exc
        tokens[name], lines[name] = token, number
    return tuple(tokens.values())


def _lines(text: str, inline_comments: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line that is neither empty nor a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = (line.partition("#")[0] if inline_comments else line).split()
        if words and not words[0].startswith("#"):
            yield number, words
