"""CPU time and memory of processes."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from attrs import frozen

_CPU_CLOCK = 2
"""The clock of the CPU time of a process, by its id (clock_getcpuclockid)."""


@frozen
class Cost:
    """Seconds: wall, and of CPU with the processes that were run."""

    wall: float
    cpu: float


def process_cpu(pid: int) -> float:
    """Return the seconds of CPU of a process, with all its threads."""
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK)


def cpu_with_children(pid: int) -> float:
    """Return the seconds of CPU of a process and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return process_cpu(pid) + sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def children_cpu() -> float:
    """Return the seconds of CPU of the children of this process that were waited for."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def resident(pid: int) -> float:
    """Return the megabytes of memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
