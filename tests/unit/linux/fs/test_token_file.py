"""Parsing token files."""

from __future__ import annotations

import pytest

from netfw.errors import ConfigError
from netfw.linux.fs.token_file import parse_token_file


def pair(words: list[str]) -> tuple[str, str]:
    if len(words) != 2:
        raise ValueError("must be HOST TOKEN")
    return words[0], words[1]


def test_lines_are_words_and_empty_lines_and_comments_are_skipped() -> None:
    text = "# hosts\n\n  h1 one\r\n\t# more\nh2   two#2\n"
    assert parse_token_file(text, "f", pair, key="host") == ("one", "two#2")


def test_inline_comments_end_a_line() -> None:
    text = "h1 one # of the first\n#h2 two\nh3 three#3\n"
    assert parse_token_file(text, "f", pair, key="host", inline_comments=True) == ("one", "three")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h1 one\nh2 secret more\n", "f, line 2: must be HOST TOKEN"),
        ("h1 one\n\nh1 secret\n", "f, line 3: has the host of line 1"),
    ],
)
def test_a_wrong_line_is_named_and_not_quoted(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_token_file(text, "f", pair, key="host")
    assert str(caught.value) == message
