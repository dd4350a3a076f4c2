"""Rescheduler: reacts to agents that appear, disappear or die, with a failure detector."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from netfw.drivers.server.change import Change
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import NetfwError, NotFound, RequestError
from netfw.model.agent import Agent
from netfw.model.resource import Ref
from netfw.server.agents.agents import SERVICES
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import ReadSnapshot
from netfw.server.scheduling.assignments import AgentAssignments

LOG = logging.getLogger(__name__)


class Rescheduler:
    """Reconciles assignments, periodically and when an agent appeared or disappeared.

    Any number of server processes may do so at once: each step is a transaction that reads again.
    Before it is started, it reconciles at once, in the thread of the caller.
    """

    def __init__(self, reconcilers: Sequence[Callable[[], int]], interval: float = 30.0) -> None:
        self._reconcilers, self._interval = reconcilers, interval
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def on_agent_up(self, unit: UnitOfWork, agent: Agent) -> None:
        """Reconcile after the commit, because a usable agent may get what is unserved."""
        if agent.agent_type in SERVICES:
            unit.after_commit.append(self.trigger)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Reconcile after the commit, because an agent was deleted or switched off."""
        match change.before, change.after:
            case Agent(agent_type=kind), None if kind in SERVICES:
                unit.after_commit.append(self.trigger)
            case Agent(agent_type=kind, admin_up=True), Agent(admin_up=False) if kind in SERVICES:
                unit.after_commit.append(self.trigger)
            case _:
                pass

    def reconcile(self) -> int:
        """Run all reconcilers; return how many changes they made. A failure is logged and retried
        later."""
        count = 0
        for reconcile in self._reconcilers:
            try:
                count += reconcile()
            except NetfwError as exc:
                LOG.warning("rescheduling failed: %s", exc)
            except Exception:
                LOG.exception("rescheduling failed: internal error")
        return count

    def start(self) -> None:
        """Reconcile in a thread of its own from now on.

        :raises BackendUnavailable: the machine has no thread left.
        """
        self._thread = start_daemon_thread("rescheduling", "rescheduling", self._run)

    def close(self) -> None:
        """Stop after the change that is in progress."""
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def trigger(self) -> None:
        """Reconcile soon."""
        if self._thread is None:
            self.reconcile()
        else:
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(self._interval)
            self._wake.clear()
            if not self._stopped.is_set():
                self.reconcile()


class OrphanedAssignments:
    """Finds the assignments of agents whose death this process has confirmed."""

    def __init__(self, context: ServerContext, assignments: AgentAssignments) -> None:
        settings = context.settings
        self._context, self._assignments = context, assignments
        self._detector = FailureDetector(
            settings.failover_grace, settings.reschedule_interval * 2 + 10
        )
        self.confirmed: frozenset[str] = frozenset()
        """Hosts of the agents that were dead when they were last read."""

    def dead_hosts(self) -> frozenset[str]:
        """Return the hosts of the dead agents."""
        self.confirmed = self._detector.confirmed(self._context.read(self._assignments.dead))
        return self.confirmed

    def find(self) -> tuple[UUID, ...]:
        """Return the ids of what the dead agents served."""
        dead = self.dead_hosts()
        if not dead:
            return ()

        def served(view: ReadSnapshot) -> set[UUID]:
            return {id for host in dead for id in self._assignments.at(view, host)}

        return tuple(sorted(self._context.read(served)))


def run_as_server(context: ServerContext, work: Callable[[UnitOfWork], object]) -> bool:
    """Run *work* in one transaction of the server itself; return whether it changed something.

    A resource that was deleted meanwhile needs no change.
    """
    try:
        return bool(context.run(SERVER, work))
    except NotFound:
        return False


def run_each_as_server(
    context: ServerContext, work: Callable[[UnitOfWork, UUID], object], targets: Iterable[Ref]
) -> int:
    """Run *work* for each of *targets* in a transaction of its own; return how many changed.

    A refusal, such as that of a pool without addresses, or an internal error is logged and concerns
    no other target.

    :raises BackendError: the database does not answer.
    """
    changed = 0
    for target in targets:
        try:
            changed += run_as_server(context, lambda unit, id=target.id: work(unit, id))  # type: ignore[misc]
        except RequestError as exc:
            LOG.warning("rescheduling: %s stays as it is: %s", target, exc)
        except NetfwError:
            raise
        except Exception:
            LOG.exception("rescheduling: %s stays as it is: internal error", target)
    return changed


class FailureDetector:
    """Records since when this process has seen hosts silent.

    After an outage of the servers or the database, every agent has been silent for long. An agent
    is dead only if it stays silent for *grace* seconds of observation. After a gap between
    observations the count starts anew, because agents may have been unable to report meanwhile.
    """

    def __init__(
        self, grace: float, attention: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start empty; *attention*: the longest gap between two observations, in seconds."""
        self._grace, self._attention, self._clock = grace, attention, clock
        self._since: dict[str, float] = {}
        self._observed_at = clock()
        self._lock = threading.Lock()

    def confirmed(self, silent: Collection[str]) -> frozenset[str]:
        """Return those of the *silent* hosts that have been so for the grace period."""
        with self._lock:
            now = self._clock()
            if now - self._observed_at > self._attention:
                self._since.clear()
            self._observed_at = now
            self._since = {host: self._since.get(host, now) for host in silent}
            return frozenset(
                host for host, since in self._since.items() if now - since >= self._grace
            )
