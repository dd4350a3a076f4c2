"""Draw the contracts, where their drivers run, and the drivers of netfw: contracts.svg.

Sentences come from the docstrings, drivers from entry_points.txt.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

from port_diagram import COLOURS
from svg import LINE, box, document, heading

from netfw.drivers.base import Driver
from netfw.drivers.registry.loader import all_contracts

DIAGRAM = Path("docs/contracts/contracts.svg")
WIDTH, LEFT, GAP = 330, 20, 10
COLUMNS = 52
"""Characters of a line in a box."""
PLACES = {
    "in the server": COLOURS["netfw/server"],
    "between server and hosts": COLOURS["netfw/state"],
    "on each host": COLOURS["netfw/agents"],
}


def place(contract: type[Driver]) -> str:
    """Return where drivers of a contract run."""
    module = contract.__module__
    if module.startswith("netfw.drivers.server."):
        return "in the server"
    shared = module in ("netfw.drivers.state_source", "netfw.drivers.transport")
    return "between server and hosts" if shared else "on each host"


def drivers_of(group: str) -> list[str]:
    """Return the names of the reference drivers in an entry-point group."""
    parser = ConfigParser()
    parser.read("entry_points.txt")
    return list(parser[group]) if group in parser else []


def texts(contract: type[Driver]) -> list[str]:
    """Return the lines of a contract's box: its name, its purpose, and its drivers."""
    sentence = (inspect.getdoc(contract) or "").split("\n\n")[0].replace("\n", " ")
    names = drivers_of(contract.GROUP)
    about = f"drivers: {', '.join(names)}" if names else "drivers of vendors only"
    return [contract.__name__, *textwrap.wrap(sentence, COLUMNS), *textwrap.wrap(about, COLUMNS)]


def column(contracts: Iterable[type[Driver]], left: int, fill: str) -> tuple[list[str], int]:
    """Draw contracts below each other; return the lines, and where they end."""
    lines: list[str] = []
    top = 66
    for contract in contracts:
        text = texts(contract)
        height = 12 + LINE * len(text)
        lines += box((left, top, WIDTH, height), fill, text)
        top += height + GAP
    return lines, top


def draw() -> str:
    """Return the diagram as SVG."""
    lines: list[str] = []
    bottom = 0
    for number, (name, fill) in enumerate(PLACES.items()):
        left = LEFT + number * (WIDTH + 2 * GAP)
        found = [each for each in all_contracts() if place(each) == name]
        drawn, end = column(found, left, fill)
        lines += [f'<text x="{left}" y="54" font-size="13">{name}</text>', *drawn]
        bottom = max(bottom, end)
    width, height = 2 * LEFT + 3 * WIDTH + 4 * GAP, bottom + GAP
    title = "The contracts of netfw, and its own drivers of each"
    return document(width, height, [heading(LEFT, title), *lines])
