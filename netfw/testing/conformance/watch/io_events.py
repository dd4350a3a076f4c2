"""Audit events by which a suite sees that a function touches files, sockets or processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

from netfw.drivers.base import Driver

INPUT_OUTPUT = ("open", "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")
"""Audit events of files, sockets and processes, by their beginning."""
CONSTRUCTION = frozenset({"from_conf", "__init__", "__attrs_post_init__"})
"""Functions of a driver class that make a driver."""
_watched = threading.local()


@contextmanager
def observed_io() -> Iterator[list[str]]:
    """Collect the audit events of input and output of this thread, but for those of imports."""
    _install_hook()
    former = getattr(_watched, "events", None)
    _watched.events = events = list[str]()
    try:
        yield events
    finally:
        _watched.events = former


@contextmanager
def observed_construction(report: Callable[[type, str], None]) -> Iterator[None]:
    """Call *report* with the class and the event of input and output while a driver is made.

    Concerns all threads.
    """
    _install_hook()
    _reports.append(report)
    try:
        yield
    finally:
        _reports.remove(report)


_reports: list[Callable[[type, str], None]] = []
"""Who is told of input and output in constructors: the audit hook is process-wide."""


@cache
def _install_hook() -> None:
    """Install the audit hook, once: hooks cannot be removed."""
    sys.addaudithook(_record)


def _record(event: str, arguments: tuple[object, ...]) -> None:
    events = getattr(_watched, "events", None)
    if (events is None and not _reports) or not event.startswith(INPUT_OUTPUT):
        return
    text = f"{event} {arguments!r}"
    frames = list(_frames(sys._getframe(1)))
    if any(frame.f_code.co_filename.startswith("<frozen importlib") for frame in frames):
        return
    if events is not None:
        events.append(text)
    if _reports and (made := _driver_under_construction(frames)) is not None:
        for report in tuple(_reports):
            report(made, text)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _driver_under_construction(frames: list[FrameType]) -> type | None:
    """Return the driver class whose constructor is on the stack; ``None``: no one is."""
    for frame in frames:
        if frame.f_code.co_name in CONSTRUCTION and frame.f_code.co_argcount:
            first = frame.f_locals.get(frame.f_code.co_varnames[0])
            made = first if isinstance(first, type) else type(first)
            if issubclass(made, Driver):
                return made
    return None
