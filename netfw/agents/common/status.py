"""What a monitor reads of an agent: a value, and a file that holds it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from netfw.agents.common.agent import Counts

LOG = logging.getLogger(__name__)


@frozen(kw_only=True)
class AgentStatus:
    """How an agent fares."""

    binary: str = ""
    host: str = ""
    ready: bool = False
    """Everything that is wanted here has been converged."""
    lag: float = 0.0
    """Seconds since the oldest thing that is not converged began to differ from what is wanted."""
    errors: Mapping[str, str] = field(factory=dict)
    """What keeps the agent as a whole from its work, such as a source that does not answer or
    whose last word is faulty: an agent that is ready then is so by what was in force before."""
    warnings: Mapping[str, str] = field(factory=dict)
    """What an operator should know although nothing failed, such as ports that are not filtered."""
    degraded: Mapping[str, str] = field(factory=dict)
    """What failed and is tried again, with the reason."""
    waiting: Mapping[str, str] = field(factory=dict)
    """What waits, and for what."""
    passes: int = 0
    last: Counts = field(factory=Counts)
    """Of the last pass that had something to do."""
    total: Counts = field(factory=Counts)
    counts: Mapping[str, int] = field(factory=dict)
    unsent: int = 0
    """Reports that the source has not heard yet."""

    def to_dict(self) -> dict[str, Any]:
        """The status as plain data; ``lag`` in whole milliseconds."""
        return {**asdict(self), "lag": round(self.lag, 3)}


Publish = Callable[[AgentStatus], None]


class StatusFile:
    """A JSON file that always holds one whole status, with the time it was written at.

    It is written once a second at most by the loop, and at least with every heartbeat: a file
    that is older than that belongs to an agent that is gone or stuck.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complained = False
        self._is_mine = False

    def __call__(self, status: AgentStatus) -> None:
        content = {**status.to_dict(), "pid": os.getpid(), "written_at": _now()}
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
            temporary.replace(self._path)
        except OSError as exc:
            if not self._complained:
                LOG.warning("the status file cannot be written, and is given up: %s", exc)
            self._complained = True
        else:
            self._complained = False
            self._is_mine = True

    def remove(self) -> None:
        """The agent ends on purpose.

        One that never wrote a status was refused, and the file may be that of one that runs.
        """
        if not self._is_mine:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as exc:
            LOG.warning("the status file cannot be removed, and is left behind: %s", exc)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
