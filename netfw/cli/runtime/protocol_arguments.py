"""Types of arguments that name protocols and their numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from netfw.model.values.protocol import NUMBERS


def protocol_number(word: str) -> int:
    """Return the number of a protocol that is given by name or number."""
    number = NUMBERS.get(word.lower(), int(word) if word.isdecimal() else None)
    if number is None or number > 255:
        raise argparse.ArgumentTypeError(f"no such protocol: {word!r}")
    return number


def number_up_to(most: int) -> Callable[[str], int]:
    """Return a type of arguments that are numbers from 0 to *most*."""

    def parse(word: str) -> int:
        if not (word.isdecimal() and len(word) <= len(str(most)) and int(word) <= most):
            raise argparse.ArgumentTypeError(f"{word[:20]!r} is no number from 0 to {most}")
        return int(word)

    return parse
