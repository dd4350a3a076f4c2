"""Hooks of the interface suite for backends in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from netfw.drivers.interface import Attachment

T = TypeVar("T")


class FakeBackend(Protocol):
    """The part of a fake backend that the hooks change."""

    foreign: set[str]
    online: bool
    refuses: bool
    """It refuses every change."""


class FakeBackendHooks:
    """Hooks that create foreign devices and outages in a fake backend."""

    backend: FakeBackend

    def make_foreign(self, value: Attachment) -> None:
        self.backend.foreign.add(value.device)

    def foreign_is_intact(self, value: Attachment) -> bool:
        return value.device in self.backend.foreign

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.backend.online = False
        yield
        self.backend.online = True

    def refused(self, call: Callable[[], T]) -> T:
        self.backend.refuses = True
        try:
            return call()
        finally:
            self.backend.refuses = False
