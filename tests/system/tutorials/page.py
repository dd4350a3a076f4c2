"""The steps of a tutorial: what a page tells its reader to type, to write and to see.

A block of the language ``console`` has commands after ``$``, continued by lines after ``>``, and
below each of them its output, in which ``...`` stands for anything.  A comment before a block says
more: ``<!-- file: NAME -->`` makes it the content of a file, ``<!-- repeat -->`` has its only
command repeated until the output is as printed.  Blocks of the language ``text`` are only read.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from attrs import evolve, frozen
from markdown_it import MarkdownIt
from markdown_it.token import Token

PROMPT, CONTINUATION = "$ ", "> "
READ = ("text", "{toctree}")
"""Languages of blocks that are not executed."""
STATUS = "echo $?"
"""The command by which a page shows that the one before it fails."""
_COMMENT = re.compile(r"<!-- (file|repeat)(?:: (\S+))? -->")


@frozen(kw_only=True)
class Command:
    """A command of a page, and the output that the page prints below it."""

    line: int
    text: str
    output: str = ""
    repeated: bool = False
    may_fail: bool = False

    def matches(self, output: str) -> bool:
        """Return whether *output* is as printed."""
        return doctest.OutputChecker().check_output(
            _lines(self.output), _lines(output), doctest.ELLIPSIS
        )


@frozen(kw_only=True)
class FileContent:
    """A file that a page has its reader write."""

    line: int
    name: str
    text: str


def parse_page(path: Path) -> list[Command | FileContent]:
    """Return the steps of a page in their order.

    :raises ValueError: a block is neither executed nor marked as ``text``.
    """
    tokens = MarkdownIt().parse(path.read_text())
    steps: list[Command | FileContent] = []
    for before, block in pairwise([Token("", "", 0), *tokens]):
        if block.type == "fence":
            assert block.map is not None
            steps += _parse_block(block.info, block.content, block.map[0] + 2, before.content)
    following = [*steps[1:], None]
    return [
        evolve(step, may_fail=isinstance(after, Command) and after.text == STATUS)
        if isinstance(step, Command)
        else step
        for step, after in zip(steps, following, strict=True)
    ]


def _parse_block(
    language: str, content: str, line: int, comment: str
) -> Iterator[Command | FileContent]:
    found = _COMMENT.fullmatch(comment.strip())
    word, name = found.groups() if found else ("", "")
    if word == "file":
        yield FileContent(line=line, name=name, text=content)
    elif language == "console":
        commands = list(_parse_commands(content, line))
        if word == "repeat" and len(commands) != 1:
            raise ValueError(f"line {line}: only a single command can be repeated")
        yield from (evolve(each, repeated=word == "repeat") for each in commands)
    elif language not in READ:
        raise ValueError(f"line {line}: a block of {language!r} is not executed: say which file")


def _parse_commands(content: str, first: int) -> Iterator[Command]:
    parts = re.split(rf"^{re.escape(PROMPT)}", content, flags=re.MULTILINE)
    if parts[0]:
        raise ValueError(f"line {first}: output without a command")
    line = first
    for part in parts[1:]:
        lines = part.splitlines()
        size = 1
        while size < len(lines) and lines[size].startswith(CONTINUATION.rstrip()):
            size += 1
        more = [each.removeprefix(CONTINUATION.rstrip())[1:] for each in lines[1:size]]
        output = "\n".join(lines[size:])
        yield Command(line=line, text="\n".join([lines[0], *more]), output=output)
        line += len(lines)


def _lines(text: str) -> str:
    """Return the text without spaces at the ends of lines."""
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)
