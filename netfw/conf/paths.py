"""Directories of state that must outlive a program."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from netfw.errors import ConfigError

STATE_PATH: Final = "/var/lib/netfw"
"""Default of ``state_path``."""


def in_state_path(text: str) -> str:
    """Replace ``$state_path`` in *text* with its default, for programs that read no
    configuration."""
    return text.replace("$state_path", STATE_PATH)


def absolute_path(option: str, text: str) -> Path:
    """Return the path that *option* states.

    :raises ConfigError: it would depend on where the program is started.
    """
    path = Path(in_state_path(text))
    if not path.is_absolute():
        raise ConfigError(f"{option}: {text!r} is not an absolute path")
    return path
