"""How a suite meddles with a machine that exists in the mind only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from netfw.drivers.interface import Attachment


class Machine(Protocol):
    """What such machines have in common."""

    foreign: set[str]
    online: bool


class OnImaginaryMachine:
    """Hooks of the suite of interface drivers."""

    machine: Machine

    def make_foreign(self, value: Attachment) -> None:
        self.machine.foreign.add(value.device)

    def foreign_is_intact(self, value: Attachment) -> bool:
        return value.device in self.machine.foreign

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.machine.online = False
        yield
        self.machine.online = True
