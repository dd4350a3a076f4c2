"""Where programs keep what must outlive them."""

from __future__ import annotations

from typing import Final

STATE_PATH: Final = "/var/lib/netfw"
"""What ``state_path`` is where nobody says."""


def in_state_path(text: str) -> str:
    """*text* in which ``$state_path`` leads to the usual place: in a program that reads no
    configuration nobody else replaces it."""
    return text.replace("$state_path", STATE_PATH)
