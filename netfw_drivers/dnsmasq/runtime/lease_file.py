"""Reading the lease file while dnsmasq may be writing it."""

from __future__ import annotations

import time
from pathlib import Path

from netfw.linux.fs.atomic_files import read_file
from netfw.linux.process import is_asleep

TIMEOUT = 2.0
_POLL_INTERVAL = 0.005


def read_consistent(path: Path, pid: int | None) -> str:
    """Read the lease file without torn writes; empty if there is none.

    dnsmasq truncates the file before it rewrites it, and may be preempted between the two.  While
    it sleeps it does neither: equal text of two reads meanwhile is complete.
    """
    deadline = time.monotonic() + TIMEOUT
    while True:
        quiet = pid is None or is_asleep(pid)
        text = read_file(path) or ""
        if pid is None or time.monotonic() > deadline:
            return text
        if quiet and is_asleep(pid) and read_file(path) == text:
            return text
        time.sleep(_POLL_INTERVAL)
