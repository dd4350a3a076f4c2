"""Audit events by which a suite sees that a function touches files, sockets or processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

INPUT_OUTPUT = ("open", "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")
"""Audit events of files, sockets and processes, by their beginning."""
_watched = threading.local()


@contextmanager
def observed_io() -> Iterator[list[str]]:
    """Collect the audit events of input and output of this thread."""
    _install_hook()
    _watched.events = events = list[str]()
    try:
        yield events
    finally:
        _watched.events = None


@cache
def _install_hook() -> None:
    """Install the audit hook, once: hooks cannot be removed."""
    sys.addaudithook(_record)


def _record(event: str, arguments: tuple[object, ...]) -> None:
    events = getattr(_watched, "events", None)
    if events is not None and event.startswith(INPUT_OUTPUT):
        events.append(f"{event} {arguments!r}")
