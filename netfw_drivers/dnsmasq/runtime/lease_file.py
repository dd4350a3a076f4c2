"""Reading the lease file while dnsmasq may be writing it."""

from __future__ import annotations

import time
from pathlib import Path

from netfw.linux.fs.atomic_files import read_file
from netfw.linux.process import is_asleep

PATIENCE = 2.0
_GLANCE = 0.005


def read_consistent(path: Path, pid: int | None) -> str:
    """The text of the lease file as a whole; empty when there is none.

    dnsmasq empties the file before it writes it anew, and may be kept waiting for the processor
    between the two.  While it sleeps it does neither: what was read twice then is what it wrote.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        quiet = pid is None or is_asleep(pid)
        text = read_file(path) or ""
        if pid is None or time.monotonic() > deadline:
            return text
        if quiet and is_asleep(pid) and read_file(path) == text:
            return text
        time.sleep(_GLANCE)
