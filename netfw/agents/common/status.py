"""Agent status, and the status file for health checks."""

from __future__ import annotations

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from attrs import asdict, field, frozen

from netfw.agents.common.agent import Counts
from netfw.agents.common.loop_tasks import LoopTask
from netfw.errors import OperationRefused

LOG = logging.getLogger(__name__)


@frozen(kw_only=True)
class AgentStatus:
    """The state of an agent, for monitoring."""

    binary: str = ""
    host: str = ""
    ready: bool = False
    """The host matches the desired state."""
    lag: float = 0.0
    """Seconds since the oldest key that is not converged began to differ."""
    errors: Mapping[str, str] = field(factory=dict)
    """Errors of the agent as a whole, such as a source that does not answer or has faulty content:
    an agent that is ready then matches the last valid state."""
    warnings: Mapping[str, str] = field(factory=dict)
    """What an operator should know although nothing failed, such as unfiltered ports."""
    degraded: Mapping[str, str] = field(factory=dict)
    """Keys that failed and are retried, with the reason."""
    waiting: Mapping[str, str] = field(factory=dict)
    """Keys that wait, and for what."""
    passes: int = 0
    last: Counts = field(factory=Counts)
    """Counts of the last pass that had something to do."""
    total: Counts = field(factory=Counts)
    counts: Mapping[str, int] = field(factory=dict)
    desired: Mapping[str, int] = field(factory=dict)
    """Number of resources that the source has for this host, by kind."""
    pending: int = 0
    """Number of keys that are not converged: those that failed, wait, or were not tried yet."""
    unsent: int = 0
    """Number of reports that the source has not received yet."""

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain data; ``lag`` in seconds, rounded to milliseconds."""
        return {**asdict(self), "lag": round(self.lag, 3)}


Publish = Callable[[AgentStatus], None]


class PublishedFile(ABC):
    """A file that always holds what one whole status says.

    An agent that waits for the lock of a running one leaves the file to that one.
    """

    CONTENT: ClassVar[str]
    """What the file holds, for the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warned = False
        self._written = False

    def __call__(self, status: AgentStatus) -> None:
        if LoopTask.LOCK in status.errors and self._is_of_another_agent():
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._write(status)
        except (OSError, OperationRefused) as exc:
            if not self._warned:
                LOG.warning("%s file cannot be written: %s", self.CONTENT, exc)
            self._warned = True
        else:
            self._warned = False
            self._written = True

    def remove(self) -> None:
        """Remove the file, at the regular end of the agent.

        An agent that never wrote it leaves it: the file may belong to a running agent.
        """
        if not self._written:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as exc:
            LOG.warning("%s file cannot be removed: %s", self.CONTENT, exc)

    @abstractmethod
    def _write(self, status: AgentStatus) -> None:
        """Replace the file at once."""

    def _is_of_another_agent(self) -> bool:
        """Return whether the file is that of the agent that holds the lock."""
        return True


class StatusFile(PublishedFile):
    """A JSON file with the status, and the time it was written at.

    It is written once a second at most by the loop, and at least with every heartbeat: a file
    that is older than that belongs to an agent that is gone or stuck.  ``errors_since`` has the
    time at which each error was first written.
    """

    CONTENT = "status"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._errors_since: dict[str, str] = {}

    def _write(self, status: AgentStatus) -> None:
        now = _now()
        self._errors_since = {name: self._errors_since.get(name, now) for name in status.errors}
        content = {
            **status.to_dict(),
            "errors_since": self._errors_since,
            "pid": os.getpid(),
            "written_at": now,
        }
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
        temporary.replace(self._path)

    def _is_of_another_agent(self) -> bool:
        """Return whether another process wrote the file, and is still running."""
        try:
            pid = int(json.loads(self._path.read_text())["pid"])
            os.kill(pid, 0)
        except PermissionError:
            return True
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return pid != os.getpid()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
