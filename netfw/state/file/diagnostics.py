"""Fault: what is wrong in a file, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

SHOWN = 100
"""So many faults are told in full; the rest is counted."""

_UNQUOTED: Final = re.compile(
    r"(not text|not an id|neither an id nor a name): (-?[0-9].*|True|False|a number too large)"
)


@frozen(kw_only=True)
class Diagnostic:
    """One sentence about one place; *path* is empty for a file as a whole."""

    file: str
    path: str = ""
    line: int | None = None
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"

    @property
    def place(self) -> str:
        """File, line and path as far as they are known: ``net.yaml:7: ports[2].mac_address``."""
        name = self.file.encode("utf-8", "backslashreplace").decode()
        file = name if self.line is None else f"{name}:{self.line}"
        return f"{file}: {self.path}" if self.path else file


def advised(problem: str) -> str:
    """*problem*, with what to do about a number, or true or false, where text is wanted."""
    return f"{problem}; put it in quotes" if _UNQUOTED.fullmatch(problem) else problem


def first_of(faults: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """As many of *faults* as anybody reads, and how many there are besides."""
    found = tuple(faults)
    if len(found) <= SHOWN:
        return found
    rest = Diagnostic(file=found[SHOWN].file, problem=f"and {len(found) - SHOWN} faults more")
    return (*found[:SHOWN], rest)
