"""Parts of the diagrams: a document, and a box with text."""

from __future__ import annotations

from html import escape

LINE = 15
"""Pixels of a line of text."""


def box(area: tuple[int, int, int, int], fill: str, texts: list[str]) -> list[str]:
    """Draw a box with its name and, below it, its purpose."""
    left, top, width, height = area
    shape = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6"'
    lines = [f'{shape} fill="{fill}" stroke="#607d8b"/>']
    for number, text in enumerate(texts, 1):
        style = 'font-weight="bold"' if number == 1 else 'fill="#37474f" font-size="11"'
        y = top + 4 + LINE * number
        lines.append(f'<text x="{left + 8}" y="{y}" {style}>{escape(text)}</text>')
    return lines


def heading(left: int, text: str) -> str:
    """Draw a title at the top."""
    return f'<text x="{left}" y="26" font-size="15" font-weight="bold">{escape(text)}</text>'


def document(width: int, height: int, lines: list[str]) -> str:
    """Return *lines* as an SVG document on white."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, background, *lines, "</svg>"]) + "\n"
