"""Rescheduling: what follows when agents come, go or die."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from netfw.drivers.change import Change
from netfw.errors import NetfwError, NotFound
from netfw.model.agent import Agent
from netfw.server.agents.agents import SERVICES
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import ReadSnapshot
from netfw.server.scheduling.assignments import AgentAssignments

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


class OrphanedAssignments:
    """Finds what agents of one sort left behind, as far as this process is sure that they died."""

    def __init__(self, backbone: ServerContext, serving: AgentAssignments) -> None:
        settings = backbone.settings
        self._backbone, self._serving = backbone, serving
        self._suspicion = FailureDetector(
            settings.failover_grace, settings.reschedule_interval * 2 + 10
        )

    def found(self) -> tuple[UUID, ...]:
        """The ids of what they served."""
        dead = self._suspicion.confirmed(self._backbone.read(self._serving.dead))
        if not dead:
            return ()

        def served(view: ReadSnapshot) -> set[UUID]:
            return {id for host in dead for id in self._serving.at(view, host)}

        return tuple(sorted(self._backbone.read(served)))


def run_as_server(backbone: ServerContext, work: Callable[[UnitOfWork], object]) -> bool:
    """Whether *work*, done by the server itself in one transaction, says that it changed something.

    What was deleted meanwhile needs no change.
    """
    try:
        return bool(backbone.run(SERVER, work))
    except NotFound:
        return False


class FailureDetector:
    """Remembers since when this process has seen hosts be dead.

    After the servers or the database were away, every agent has been silent for long.  Only who is
    still silent after *grace* seconds of looking on is dead.  Who looks seldom begins anew: nobody
    may have been able to report in between.
    """

    def __init__(
        self, grace: float, attention: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """*attention*: seconds between two looks at most."""
        self._grace, self._attention, self._clock = grace, attention, clock
        self._since: dict[str, float] = {}
        self._looked = clock()
        self._lock = threading.Lock()

    def confirmed(self, silent: Collection[str]) -> frozenset[str]:
        """Those of the hosts that are *silent* now that have been so for long enough."""
        with self._lock:
            now = self._clock()
            if now - self._looked > self._attention:
                self._since.clear()
            self._looked = now
            self._since = {host: self._since.get(host, now) for host in silent}
            return frozenset(
                host for host, since in self._since.items() if now - since >= self._grace
            )
