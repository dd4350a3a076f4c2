"""Lists of names in messages, with a limit.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

NAMED = 3
"""Number of names in a message, by default."""


def render_names(
    names: Iterable[object], count: int, limit: int = NAMED, separator: str = ", "
) -> str:
    """Render the first of *count* names: ``a, b, c and 2 more``."""
    more = f" and {count - limit} more" if count > limit else ""
    return f"{separator.join(map(str, islice(names, limit)))}{more}"
