"""Descriptors, threads and child processes that this process holds."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

ROUNDS = 3
"""Repetitions by which a leak is told from what a driver keeps for good."""


@frozen
class HeldResources:
    """What a leak makes grow, each by a name that tells what it is."""

    descriptors: Counter[str]
    threads: Counter[str]
    children: Counter[str]


def read_held_resources() -> HeldResources:
    """Return what this process holds; what nobody refers to is collected first."""
    gc.collect()
    return HeldResources(
        descriptors=Counter(_descriptors()),
        threads=Counter(thread.name.rstrip("0123456789-") for thread in threading.enumerate()),
        children=Counter(_children()),
    )


def growth(before: HeldResources, after: HeldResources, rounds: int) -> Iterator[str]:
    """Yield what grew by one or more in each of *rounds*, in words.  Pure."""
    for kind, was, now in (
        ("descriptors", before.descriptors, after.descriptors),
        ("threads", before.threads, after.threads),
        ("child processes", before.children, after.children),
    ):
        more = now.total() - was.total()
        if more >= rounds:
            names = ", ".join(f"{count} x {name}" for name, count in (now - was).most_common(5))
            yield f"{more} {kind} are left after {rounds} rounds: {names}"


def _descriptors() -> Iterator[str]:
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            yield os.readlink(path).split("[")[0]


def _children() -> Iterator[str]:
    pids: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            pids += (task / "children").read_text().split()
    for pid in pids:
        with suppress(OSError):  # the process has ended
            yield Path(f"/proc/{pid}/comm").read_text().strip()
