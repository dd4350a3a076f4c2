"""State of the process that belongs to the embedding program, and never to a driver."""

from __future__ import annotations

import locale
import logging
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from attrs import fields, frozen

SIGNALS = tuple(
    getattr(signal, f"SIG{name}")
    for name in ("HUP", "INT", "QUIT", "TERM", "CHLD", "PIPE", "ALRM", "USR1", "USR2", "WINCH")
)
_get_handler: Callable[[int], Any] = import_module("_signal").getsignal
"""Returns a handler as it is: that of `signal` looks each up as a member of an enum, and raises."""


class _Environment:
    """The environment variables: read again after a change alone, as that takes long."""

    def __init__(self) -> None:
        self._is_watched, self._is_stale = False, True
        self._variables: dict[Any, Any] = {}

    def read(self) -> dict[Any, Any]:
        if not self._is_watched:
            sys.addaudithook(self._audit)
            self._is_watched = True
        if self._is_stale:
            self._is_stale = False
            self._variables = dict(os.environ)
        return self._variables

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        del arguments
        if event in ("os.putenv", "os.unsetenv"):
            self._is_stale = True


_environment = _Environment()


@frozen
class ProcessState:
    """What a driver leaves as it is; a field is named as an error names it."""

    signal_handlers: tuple[Any, ...]
    umask: bytes
    environment: dict[Any, Any]
    working_directory: str
    locale: str
    root_logger: tuple[Any, ...]
    standard_streams: tuple[Any, ...]
    exception_hooks: tuple[Any, ...]
    default_socket_timeout: float | None
    standard_output: tuple[int | None, ...]
    """Bytes that standard output and standard error have, where these are files."""


def read_process_state() -> ProcessState:
    """Return the state of this process now."""
    root = logging.getLogger()
    return ProcessState(
        signal_handlers=tuple(map(_get_handler, SIGNALS)),
        umask=_read_umask(),
        environment=_environment.read(),
        working_directory=os.getcwd(),
        locale=locale.setlocale(locale.LC_ALL),
        root_logger=(root.level, root.disabled, tuple(root.handlers), logging.root.manager.disable),
        standard_streams=(sys.stdin, sys.stdout, sys.stderr),
        exception_hooks=(sys.excepthook, threading.excepthook, sys.gettrace()),
        default_socket_timeout=socket.getdefaulttimeout(),
        standard_output=(_size(1), _size(2)),
    )


def process_changes(before: ProcessState, after: ProcessState) -> Iterator[str]:
    """Yield what differs, in words.  Pure."""
    for field in fields(ProcessState):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was == now:
            continue
        if field.name == "standard_output":
            yield "it wrote to standard output or standard error: drivers log"
        elif field.name == "environment":
            names = sorted(name for name in was.keys() | now if was.get(name) != now.get(name))
            yield f"it changed environment variables of the process: {', '.join(names)}"
        else:
            what = field.name.replace("_", " ")
            yield f"it changed the {what} of the process: {was} is now {now}"


def is_output_shared() -> bool:
    """Return whether another process writes to the same standard output or standard error.

    What was written since is then not attributable to this process or a child that has ended.
    """
    own = {(status.st_dev, status.st_ino) for status in map(os.fstat, (1, 2))}
    others = (name for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid())
    for path in (f"/proc/{name}/fd/{number}" for name in others for number in (1, 2)):
        with suppress(OSError):  # the process has ended
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in own:
                return True
    return False


def _read_umask() -> bytes:
    """Return the umask without changing it for a moment, as ``os.umask`` would."""
    beginning = os.pread(_status_file(os.getpid()), 100, 0)
    return beginning.partition(b"Umask:")[2].strip()[:4]


@cache
def _status_file(pid: int) -> int:
    """Open the status of this process, for good: it is read around every call."""
    return os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)


def _size(descriptor: int) -> int | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
