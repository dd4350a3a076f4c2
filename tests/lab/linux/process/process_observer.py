"""What tests of processes ask of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from netfw.linux.process.identity import observe, stat


def running(*argv: str) -> list[int]:
    """Return the pids of the processes with that command line."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if (now := observe(pid)) is not None and now.argv == argv]


def state(pid: int) -> str | None:
    try:
        return stat(pid)[0]
    except OSError:
        return None


def zombies() -> set[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid for pid in pids if state(pid) == "Z"}
