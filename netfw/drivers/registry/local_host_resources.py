"""LocalHostResources: the `HostResources` of a plain Python program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from typing import Any, Self, TypeVar, cast

from netfw.drivers.base import Contract, Driver
from netfw.errors import ConfigError

T = TypeVar("T")
D = TypeVar("D", bound=Driver)


class LocalHostResources:
    """Shared objects and collaborators of one host in this process.

    Two of them are two hosts: nothing is global.  Closing it closes the shared objects, newest
    first; drivers are closed by the code that made them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._shared: dict[Hashable, Any] = {}
        self._drivers: list[Driver] = []

    def share(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key not in self._shared:
                self._shared[key] = make()
            return cast(T, self._shared[key])

    def add(self, driver: Driver) -> None:
        """Offer *driver* to the other drivers of this host."""
        with self._lock:
            self._drivers.append(driver)

    def driver(self, contract: Contract[D]) -> D:
        wanted = cast(type[D], contract)
        with self._lock:
            for candidate in self._drivers:
                if isinstance(candidate, wanted):
                    return candidate
        raise ConfigError(f"this host has no {wanted.__name__}; configure one ({wanted.GROUP})")

    def close(self) -> None:
        """Close the shared objects; the failure of one does not keep the others open."""
        with self._lock, ExitStack() as closing:
            for shared in self._shared.values():
                if hasattr(shared, "close"):
                    closing.callback(shared.close)
            self._shared.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
