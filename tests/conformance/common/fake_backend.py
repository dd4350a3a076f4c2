"""Hooks of suites for backends in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from netfw.drivers.interface import Attachment

T = TypeVar("T")


class FakeBackend(Protocol):
    """The part of a fake backend that the hooks change."""

    online: bool
    refuses: bool
    """It refuses every change."""


class FakeDeviceBackend(FakeBackend, Protocol):
    """A fake backend that has devices."""

    foreign: set[str]


class FakeFailures:
    """Hooks that create outages and refusals in a fake backend."""

    backend: FakeBackend

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.backend.online = False
        try:
            yield
        finally:
            self.backend.online = True

    def refused(self, call: Callable[[], T]) -> T:
        self.backend.refuses = True
        try:
            return call()
        finally:
            self.backend.refuses = False


class FakeBackendHooks(FakeFailures):
    """Hooks that create foreign devices, too."""

    backend: FakeDeviceBackend

    def make_foreign(self, value: Attachment) -> None:
        self.backend.foreign.add(value.device)

    def foreign_is_intact(self, value: Attachment) -> bool:
        return value.device in self.backend.foreign
