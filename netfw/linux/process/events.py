"""Events that the supervisor sends to the owner of a process."""

from __future__ import annotations

from attrs import frozen

from netfw.drivers.values.events import Event
from netfw.linux.process.supervised_program import OnDeath, ProcessKey


@frozen
class ProcessExited(Event):
    """A process ended unexpectedly; *tail* is the end of its output."""

    key: ProcessKey
    on_death: OnDeath
    tail: str = ""


@frozen
class ProcessRespawned(Event):
    """The process runs again."""

    key: ProcessKey
    pid: int


@frozen
class RespawnFailed(Event):
    """The restart of a process failed; the next attempt is in *retry_in* seconds."""

    key: ProcessKey
    retry_in: float
