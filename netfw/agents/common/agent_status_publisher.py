"""StatusPublisher: the current status of an agent, for threads that wait for it and for a file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from netfw.agents.common.status import AgentStatus, Publish

LOG = logging.getLogger(__name__)
_PAUSE = 1.0


class StatusPublisher:
    """Holds the current status, and publishes it once a second at most.

    ``set``, ``invalidate`` and ``due`` are for the thread of the loop, the others for any thread.
    """

    def __init__(self, status: AgentStatus, publish: Publish | None) -> None:
        self._status, self._publish = status, publish
        self._published: tuple[float, AgentStatus] | None = None
        self._logged_warnings: set[str] = set()
        self._changed = threading.Condition()
        self._ended = False

    @property
    def status(self) -> AgentStatus:
        """The current status."""
        return self._status

    def wait_for(self, condition: Callable[[AgentStatus], bool], timeout: float) -> bool:
        """Wait for a status; return whether it came in time and before the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or condition(self._status), timeout)
            return condition(self._status)

    def wait_for_end(self, timeout: float) -> bool:
        """Wait for the end; return whether it came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, timeout)

    def end(self) -> None:
        """Let all threads that wait go on: there is no further status."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def set(self, status: AgentStatus, now: float) -> None:
        """Set the status, and publish it; new errors and a change of ``ready`` at once.

        The next task may wait for what does not answer.
        """
        for name in status.warnings.keys() - self._logged_warnings:
            LOG.warning("%s: %s", name, status.warnings[name])
            self._logged_warnings.add(name)
        with self._changed:
            self._status = status
            self._changed.notify_all()
        if self._published is not None:
            at, former = self._published
            new_error = status.errors.keys() - former.errors.keys()
            urgent = new_error or former.ready != status.ready
            if not urgent and (former == status or now - at < _PAUSE):
                return
        if self._publish is not None:
            self._publish(status)
        self._published = (now, status)

    def invalidate(self) -> None:
        """Publish the next status in any case."""
        self._published = None

    def due(self) -> float | None:
        """Return when the current status can be published; ``None``: it was."""
        if self._published is None:
            return _PAUSE
        at, former = self._published
        return None if former == self._status else at + _PAUSE
