"""State of supervised processes, as returned and as tracked by a supervisor."""

from __future__ import annotations

import threading

from attrs import define, field, frozen

from netfw.linux import netns
from netfw.linux.process.identity import Handle, ProcessIdentity
from netfw.linux.process.supervised_program import Program


@frozen
class StartedProcess:
    """A process that was started or adopted."""

    pid: int
    adopted: bool
    """Whether it ran already when it was requested."""


@frozen(kw_only=True)
class RunningProcess:
    """A running process, as it is on record."""

    pid: int
    digest: str
    """Digest of the program that it was started as."""
    namespace: netns.NamespaceIdentity
    """Identity of its namespace, whichever namespace has the name by now."""


@define
class SupervisedProcess:
    """State that the supervisor tracks for one key."""

    lock: threading.RLock = field(factory=threading.RLock)
    users: int = 0
    program: Program | None = None
    handle: Handle | None = None
    former: set[ProcessIdentity] = field(factory=set)
    """Process that died last, and those that were started since in its place."""
    deaths: int = 0
    since: float = 0.0
    turn: int = 0
    """Generation: counts requests of the owner, so that a delayed respawn detects that it is
    outdated."""
