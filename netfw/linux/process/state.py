"""What a supervisor says and knows of the processes it keeps."""

from __future__ import annotations

import threading

from attrs import define, field, frozen

from netfw.linux import netns
from netfw.linux.process.identity import Handle, Identity
from netfw.linux.process.program import Program


@frozen
class Process:
    """A process that runs."""

    pid: int
    adopted: bool
    """It ran already when it was asked for."""


@frozen(kw_only=True)
class Running:
    """A process that runs, as it is on record."""

    pid: int
    digest: str
    """Of the program that it was started as."""
    namespace: netns.Identity
    """Where it is, whatever has that name by now."""


@define
class ProcessState:
    """What the supervisor knows about one key."""

    lock: threading.RLock = field(factory=threading.RLock)
    users: int = 0
    program: Program | None = None
    handle: Handle | None = None
    former: Identity | None = None
    """Who died last."""
    deaths: int = 0
    since: float = 0.0
    turn: int = 0
    """Counts what the owner asked for, so that a respawn that was put off knows it is outdated."""
