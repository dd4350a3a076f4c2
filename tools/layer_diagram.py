"""Draw the layers of netfw and what drivers may import of them: docs/layers.svg.

The layers come from .importlinter, the purpose of each folder from its docstring.
"""

from __future__ import annotations

import ast
import textwrap
from configparser import ConfigParser
from pathlib import Path

from port_diagram import COLOURS, colour
from svg import LINE, box, document, heading

DIAGRAM = Path("docs/layers.svg")
WIDTH, LEFT, GAP, SIDE = 760, 20, 8, 230
SHORT = 26
"""Columns of text in a box of the narrowest width, a quarter of a row."""


def layers(parser: ConfigParser) -> list[list[str]]:
    """Return the folders of each layer, the highest first."""
    rows = parser["importlinter:contract:layers"]["layers"].split("\n")
    return [[name.strip(" ()") for name in row.split("|")] for row in rows if row.strip()]


def forbidden_to_drivers(parser: ConfigParser) -> set[str]:
    """Return the folders that no driver imports."""
    names = parser["importlinter:contract:drivers"]["forbidden_modules"].split()
    return {name.removeprefix("netfw.") for name in names}


def purpose(path: Path) -> str:
    """Return the first sentence of the docstring of a package or module, else its folders."""
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text())) or ""
    if not text:
        return ", ".join(sorted(each.parent.name for each in path.glob("*/__init__.py")))
    sentence = " ".join(text.split("\n\n")[0].split()).split(". ")[0]
    return sentence.split(":  ")[0].rstrip(".").replace("`", "")


def row(folders: list[str], top: int) -> tuple[list[str], int]:
    """Draw the folders of one layer beside each other; return the lines, and the height."""
    width = (WIDTH - GAP * (len(folders) - 1)) // len(folders)
    columns = SHORT * 4 // len(folders) + 4 * (4 - len(folders))
    texts = [
        [name, *textwrap.wrap(purpose(Path("netfw", name)), columns)]
        for name in folders
    ]  # fmt: skip
    height = 12 + LINE * max(map(len, texts))
    lines: list[str] = []
    for number, (name, text) in enumerate(zip(folders, texts, strict=True)):
        left = LEFT + number * (width + GAP)
        lines += box((left, top, width, height), colour(f"netfw/{name}"), text)
    return lines, height


def draw() -> str:
    """Return the diagram as SVG."""
    parser = ConfigParser()
    parser.read(".importlinter")
    rows = layers(parser)
    lines: list[str] = []
    top = 40
    for folders in rows:
        drawn, height = row(folders, top)
        lines += drawn
        top += height + GAP
    bottom, right = top - GAP, LEFT + WIDTH + 3 * GAP
    width, height = right + SIDE + LEFT, bottom + 20
    allowed = [name for folders in rows for name in folders]
    allowed = [name for name in allowed if name not in forbidden_to_drivers(parser)]
    about = "Reference drivers, one folder for each backend; none imports another."
    texts = [about, f"They may import: {', '.join(allowed)}.", "netfw imports none of them."]
    wrapped = [line for text in texts for line in (*textwrap.wrap(text, 36), "")]
    side = (right, 40, SIDE, bottom - 40)
    lines += box(side, COLOURS["netfw_drivers"], ["netfw_drivers", *wrapped])
    title = "netfw: a folder imports those below it, and none beside it"
    return document(width, height, [heading(LEFT, title), *lines])
