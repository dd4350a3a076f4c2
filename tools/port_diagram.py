"""Draw the folders that a port passes from the API to its flows: docs/port-path.svg.

The order comes from docs/port-path.json (`tools/port_path.py`), the purpose of each folder from the
docstring of its package.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

from svg import LINE, document, heading

PATH = Path("docs/port-path.json")
DIAGRAM = Path("docs/port-path.svg")
SHARED = ("netfw/model", "netfw/drivers", "netfw/plan", "netfw/flows", "netfw/conf", "netfw")
"""Folders of values and contracts, which every other folder uses."""
WIDTH, LEFT, GAP = 470, 20, 60
COLOURS = {
    "netfw/cli": "#eceff1",
    "netfw/http": "#e3f2fd",
    "netfw/server": "#e3f2fd",
    "netfw/state": "#fff3e0",
    "netfw/agents": "#e8f5e9",
    "netfw_drivers": "#f3e5f5",
    "netfw/linux": "#ffebee",
    "netfw/ovs": "#ffebee",
}


def rooms(path: list[dict[str, str]], process: str) -> dict[str, list[str]]:
    """Return the folders that *process* enters, in order, with the modules it enters there."""
    found: dict[str, list[str]] = {}
    for step in path:
        module = Path(step["module"])
        folder = str(module.parent)
        if step["process"] == process and not _is_shared(folder):
            found.setdefault(folder, []).append(module.stem)
    return found


def _is_shared(folder: str) -> bool:
    return any(folder == each or folder.startswith(f"{each}/") for each in SHARED[:-1]) or (
        folder == SHARED[-1]
    )


def purpose(folder: str) -> str:
    """Return the first sentence of the docstring of a package."""
    package = Path(folder, "__init__.py")
    if not package.exists():
        raise SystemExit(f"{PATH} names {folder}, which is gone: run tools/port_path.py as root")
    text = ast.get_docstring(ast.parse(package.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".").replace("`", "")


def colour(folder: str) -> str:
    """Return the fill colour of a folder's box, by its layer."""
    return next((c for name, c in COLOURS.items() if folder.startswith(name)), "#ffffff")


def box(left: int, top: int, folder: str, modules: list[str]) -> tuple[list[str], int]:
    """Draw one folder; return its lines of SVG and its height."""
    about = textwrap.wrap(purpose(folder), 66)
    names = textwrap.wrap(", ".join(dict.fromkeys(modules)), 72)
    height = 14 + LINE * (1 + len(about) + len(names))
    shape = f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" rx="6"'
    lines = [f'{shape} fill="{colour(folder)}" stroke="#607d8b"/>']
    texts = [
        (f"{folder}/", 'font-weight="bold"'),
        *((text, "") for text in about),
        *((text, 'fill="#546e7a" font-size="11"') for text in names),
    ]
    for number, (text, style) in enumerate(texts, 1):
        y = top + 4 + LINE * number
        lines.append(f'<text x="{left + 10}" y="{y}" {style}>{escape(text)}</text>')
    return lines, height


def column(left: int, title: str, folders: dict[str, list[str]]) -> Iterator[tuple[str, int]]:
    """Yield the lines of one process, each with the lowest y so far."""
    top = 40
    yield heading(left, title), top
    for index, (folder, modules) in enumerate(folders.items()):
        if index:
            middle = left + WIDTH // 2
            yield (
                f'<line x1="{middle}" y1="{top - 14}" x2="{middle}" y2="{top - 2}" '
                'stroke="#607d8b" marker-end="url(#arrow)"/>',
                top,
            )
        lines, height = box(left, top, folder, modules)
        top += height + 16
        for line in lines:
            yield line, top


def draw() -> str:
    """Return the diagram as SVG."""
    path = json.loads(PATH.read_text())["path"]
    right = LEFT + WIDTH + GAP
    columns = [
        *column(LEFT, "netfw-server: POST /v2.0/ports", rooms(path, "server")),
        *column(right, "netfw-ovs-agent: to the flows on br-int", rooms(path, "agent")),
    ]
    height = max(bottom for _, bottom in columns) + 10
    width = right + WIDTH + LEFT
    marker = (
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6 z" fill="#607d8b"/></marker></defs>'
    )
    across = (
        f'<line x1="{LEFT + WIDTH + 4}" y1="60" x2="{right - 4}" y2="60" stroke="#607d8b" '
        'stroke-dasharray="4" marker-end="url(#arrow)"/>'
        f'<text x="{LEFT + WIDTH + 6}" y="54" font-size="10">RPC</text>'
    )
    return document(width, height, [marker, *(line for line, _ in columns), across])
