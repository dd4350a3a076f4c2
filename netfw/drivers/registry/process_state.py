"""The state of this process that a driver shares with everything else, and what has changed it."""

from __future__ import annotations

import locale
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler

_MODULES: Final = (
    *("_thread", "builtins", "logging", "os", "select", "selectors", "signal", "socket", "ssl"),
    *("subprocess", "threading", "time"),
)
_CLASSES: Final = {"socket": "socket", "subprocess": "Popen", "threading": "Thread"}
"""Modules, and classes of them, whose functions a driver must not replace; as far as the process
has imported them."""


@frozen(kw_only=True)
class GlobalState:
    """State that no driver changes: other drivers and the program depend on it."""

    values: Mapping[str, object]
    functions: Mapping[str, object]
    signals: Mapping[signal.Signals, object]

    @classmethod
    def read(cls) -> Self:
        return cls(
            values={
                "the working directory": _working_directory(),
                "the umask": _umask(),
                "the default timeout of sockets": _socket_timeout(),
                "sys.stdin": sys.stdin,
                "sys.stdout": sys.stdout,
                "sys.stderr": sys.stderr,
                "sys.excepthook": sys.excepthook,
                "threading.excepthook": threading.excepthook,
                "the recursion limit": sys.getrecursionlimit(),
            },
            functions=dict(_functions()),
            signals={each: signal.getsignal(each) for each in signal.valid_signals()},
        )

    def changes(self, after: GlobalState) -> Iterator[str]:
        """Yield what is another in *after*."""
        for name, value in self.values.items():
            if after.values[name] != value:
                yield f"changes {name}"
        patched = [
            name
            for name, function in self.functions.items()
            if after.functions.get(name) is not function
        ]
        if patched:
            yield f"replaces functions of Python or netfw: {_some(patched)}"
        handled = [each.name for each in self.signals if after.signals[each] != self.signals[each]]
        if handled:
            yield f"changes the handlers of {_some(handled)}"


@frozen(kw_only=True)
class ProcessResources:
    """State that a driver may change for a reason, though neither at import nor in `from_conf`."""

    environment: Mapping[str, str]
    threads: Mapping[int | None, str]
    descriptors: Mapping[str, str]
    children: frozenset[str]
    log_settings: tuple[object, ...]
    random_state: object
    locale: str

    @classmethod
    def read(cls) -> Self:
        root = logging.getLogger()
        return cls(
            environment=dict(os.environ),
            threads={thread.ident: thread.name for thread in threading.enumerate()},
            descriptors=_descriptors(),
            children=_children(),
            log_settings=(root.level, *root.handlers, logging.root.manager.disable),
            random_state=random.getstate(),
            locale=locale.setlocale(locale.LC_ALL, None),
        )

    def acquired(self, after: ProcessResources) -> Iterator[str]:
        """Yield what *after* has and this has not: threads, descriptors and child processes."""
        threads = [name for each, name in after.threads.items() if each not in self.threads]
        if threads:
            yield f"starts threads: {_some(threads)}"
        descriptors = [
            target
            for number, target in after.descriptors.items()
            if self.descriptors.get(number) != target
        ]
        if descriptors:
            yield f"opens {_some(descriptors)}"
        if after.children - self.children:
            yield "starts processes"

    def changes(self, after: ProcessResources) -> Iterator[str]:
        """Yield what is another in *after*, with what it leaves."""
        yield from self.acquired(after)
        names = self.environment.keys() | after.environment.keys()
        changed = [
            name for name in names if self.environment.get(name) != after.environment.get(name)
        ]
        if changed:
            yield f"changes the environment: {_some(sorted(changed))}"
        for what, ours, theirs in (
            ("the settings of logging", self.log_settings, after.log_settings),
            ("the state of random", self.random_state, after.random_state),
            ("the locale", self.locale, after.locale),
        ):
            if ours != theirs:
                yield f"changes {what}"


def _functions() -> Iterator[tuple[str, object]]:
    modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
    classes = [
        getattr(sys.modules[module], name)
        for module, name in _CLASSES.items()
        if module in sys.modules
    ]
    for owner in (*modules, *classes, Driver, HostDriver, Reconciler):
        for name, value in list(vars(owner).items()):
            if callable(value):
                yield f"{owner.__name__}.{name}", value


def _socket_timeout() -> float | None:
    module: Any = sys.modules.get("socket")
    return None if module is None else module.getdefaulttimeout()


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None  # it was removed


def _umask() -> str | None:
    """Return the umask without changing it, as the system call would."""
    return next(
        (line for line in _read("/proc/self/status").splitlines() if line.startswith("Umask:")),
        None,
    )


def _descriptors() -> dict[str, str]:
    found: dict[str, str] = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # that of the listing itself
        found[number] = target
    return found


def _children() -> frozenset[str]:
    return frozenset(_read(f"/proc/self/task/{os.getpid()}/children").split())


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
