"""Rescheduling: what follows when agents come, go or die."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from netfw.drivers.change import Change
from netfw.errors import NetfwError
from netfw.model.agent import Agent
from netfw.server.agents.agents import SERVICES
from netfw.server.core.unit_of_work import UnitOfWork

LOG = logging.getLogger(__name__)


class Rescheduler:
    """Mends what is scheduled, now and then and when an agent came or went.

    Any number of server processes may do so at once: each step is a transaction that looks again.
    Until it is started, it mends at once, in the thread of whoever told it of an agent.
    """

    def __init__(self, menders: Sequence[Callable[[], int]], interval: float = 30.0) -> None:
        self._menders, self._interval = tuple(menders), interval
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def arrived(self, unit: UnitOfWork, agent: Agent) -> None:
        """An agent can be counted on: it may get what nobody serves."""
        if agent.agent_type in SERVICES:
            unit.after_commit.append(self._told)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """An agent was deleted or switched off: what it served is served by nobody."""
        match change.before, change.after:
            case Agent(agent_type=kind), None if kind in SERVICES:
                unit.after_commit.append(self._told)
            case Agent(agent_type=kind, admin_up=True), Agent(admin_up=False) if kind in SERVICES:
                unit.after_commit.append(self._told)
            case _:
                pass

    def mend(self) -> int:
        """Mend all there is; how much there was.  What fails is logged, and tried the next time."""
        count = 0
        for mender in self._menders:
            try:
                count += mender()
            except NetfwError as exc:
                LOG.warning("could not mend what agents serve: %s", exc)
        return count

    def start(self) -> None:
        """Mend in a thread of its own from now on."""
        self._thread = threading.Thread(target=self._run, name="rescheduling", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what is being mended is finished first."""
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _told(self) -> None:
        if self._thread is None:
            self.mend()
        else:
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(self._interval)
            self._wake.clear()
            if not self._stopped.is_set():
                self.mend()
