"""The examples of pages that are no tutorials: blocks of a section, without prompts and output."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from attrs import frozen
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.system.tutorials.page import Command, FileContent

SHELL, PYTHON = "", "python"
"""Languages of blocks."""


@frozen(kw_only=True)
class Example:
    """A block of a page."""

    line: int
    text: str

    def as_command(self, output: str) -> Command:
        """Return its commands as one step, which ends with the first command that fails."""
        return Command(line=self.line, text=f"set -e\n{self.text}\nset +e", output=output)

    def as_file(self, name: str) -> FileContent:
        """Return the step in which a reader saves it as a file."""
        return FileContent(line=self.line, name=name, text=self.text)


def find_example(page: Path, heading: str, language: str, number: int = 0) -> Example:
    """Return the block with this *number* among those of *language* below the heading.

    :raises AssertionError: the page has no such block.
    """
    found, below = [], ""
    tokens = MarkdownIt().parse(page.read_text())
    for before, token in pairwise([Token("", "", 0), *tokens]):
        if before.type == "heading_open":
            below = token.content
        elif token.type == "fence" and below == heading and token.info == language:
            assert token.map is not None
            found.append(Example(line=token.map[0] + 2, text=token.content))
    assert number < len(found), f"{page.name}: {len(found)} blocks of {language!r} in {heading!r}"
    return found[number]
