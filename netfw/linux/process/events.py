"""What the supervisor tells the owner of a process."""

from __future__ import annotations

from attrs import frozen

from netfw.drivers.events import Event
from netfw.linux.process.program import OnDeath, ProcessKey


@frozen
class ProcessDied(Event):
    """A process ended without being asked to; *tail* are its last words."""

    key: ProcessKey
    on_death: OnDeath
    tail: str = ""


@frozen
class ProcessRespawned(Event):
    """It runs again."""

    key: ProcessKey
    pid: int


@frozen
class RespawnFailed(Event):
    """It could not be started again; the next try is in *retry_in* seconds."""

    key: ProcessKey
    retry_in: float
