"""Directories of state that must outlive a program."""

from __future__ import annotations

from typing import Final

STATE_PATH: Final = "/var/lib/netfw"
"""Default of ``state_path``."""


def in_state_path(text: str) -> str:
    """Replace ``$state_path`` in *text* with its default, for programs that read no
    configuration."""
    return text.replace("$state_path", STATE_PATH)
