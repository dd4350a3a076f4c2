"""Lines on standard output and standard error, of texts that other hosts may have chosen."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def escape_controls(text: str) -> str:
    """Return *text* with every character that a terminal could obey spelled as an escape.

    A text of another host, or of a program, may hold anything: colours, titles and movements of the
    cursor, ends of lines, and marks that reverse the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def print_lines(lines: Iterable[str]) -> None:
    """Print each of *lines* as one line, without control characters."""
    for line in lines:
        print(escape_controls(line))


def print_error(error: object) -> None:
    """Print *error* on standard error, after the name of the command."""
    lines = map(escape_controls, str(error).split("\n"))
    print("netfw: " + "\n".join(lines), file=sys.stderr)
