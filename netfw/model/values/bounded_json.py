"""JSON of a peer, with a bound on what it becomes in memory.  Pure.

Text of a few bytes can become an object of two hundred: a message of 16 MiB, half a gigabyte.  So
the number of values is estimated, from above, before the text is parsed.
"""

from __future__ import annotations

import json

_SEPARATORS = (b",", b"[", b"{")


def load_bounded(data: bytes, *, size: int, values: int) -> object:
    """Parse *data*, unless it is longer than *size* bytes or may have more than *values* values.

    Commas and brackets within texts count as values, too.

    :raises ValueError: it is too large, or no JSON; the text says which.
    """
    if len(data) > size:
        raise ValueError(f"it has {len(data)} bytes, and {size} is the limit")
    found = 1 + sum(map(data.count, _SEPARATORS))
    if found > values:
        raise ValueError(f"it has up to {found} values, and {values} is the limit")
    try:
        return json.loads(data)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
