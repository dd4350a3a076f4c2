"""Diagram of hosts and the links between them, as text.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest


def render_hosts(contents: Mapping[str, Sequence[str]], link: str) -> Iterator[str]:
    """Render a box for each host, side by side; *link* joins them at their first lines."""
    width = max(len(line) for lines in contents.values() for line in lines)
    edge, gap = f"+{'-' * (width + 2)}+", " " * (len(link) + 2)
    yield gap.join(name.ljust(len(edge)) for name in contents).rstrip()
    yield gap.join(edge for _ in contents)
    for number, row in enumerate(zip_longest(*contents.values(), fillvalue="")):
        joint = gap if number else f"-{link}-"
        yield joint.join(f"| {line.ljust(width)} |" for line in row)
    yield gap.join(edge for _ in contents)
