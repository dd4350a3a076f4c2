"""Diagnostics: a problem in a file, with its position."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

MAX_REPORTED = 100
"""Maximum number of diagnostics that are reported in full; the rest is counted."""

_UNQUOTED: Final = re.compile(
    r"(not text|not an id|neither an id nor a name): (-?[0-9].*|True|False|a number too large)"
)


@frozen(kw_only=True)
class Diagnostic:
    """One problem at one position; *path* is empty for a file as a whole."""

    file: str
    path: str = ""
    line: int | None = None
    problem: str

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}"

    @property
    def location(self) -> str:
        """File, line and path, as far as they are known: ``net.yaml:7: ports[2].mac_address``."""
        name = self.file.encode("utf-8", "backslashreplace").decode()
        file = name if self.line is None else f"{name}:{self.line}"
        return f"{file}: {self.path}" if self.path else file


class FileRefused(ValueError):
    """The file cannot be parsed."""

    def __init__(self, problem: str, path: str = "", line: int | None = None) -> None:
        self.path, self.line = path, line
        super().__init__(problem)


def with_advice(problem: str) -> str:
    """Return *problem*, with advice to quote a number or boolean where text is required."""
    return f"{problem}; put it in quotes" if _UNQUOTED.fullmatch(problem) else problem


def truncate(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the first `MAX_REPORTED` diagnostics, and one with the number of the others."""
    every = tuple(diagnostics)
    if len(every) <= MAX_REPORTED:
        return every
    rest = Diagnostic(
        file=every[MAX_REPORTED].file, problem=f"and {len(every) - MAX_REPORTED} more errors"
    )
    return (*every[:MAX_REPORTED], rest)
