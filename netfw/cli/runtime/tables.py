"""Tables on standard output: by rich on a terminal where it is installed, else plain text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from netfw.cli.runtime.output import escape_controls


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print *rows* under *headers* on standard output."""
    filled = [[escape_controls(str(cell)) for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _print_rich(headers, filled)):
        for line in plain_table(headers, filled):
            print(line)


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Yield the lines of a table in which every column is as wide as its widest cell."""
    lines = [headers, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _print_rich(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    console = Console()
    names = max(len(line[0]) for line in (headers, *rows))
    if names + sum(2 + len(header) for header in headers[1:]) > console.width:
        return False  # it would cut names, and leave nothing of other cells
    table = Table(*headers, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    return True
