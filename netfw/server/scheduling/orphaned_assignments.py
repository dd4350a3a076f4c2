"""Abandonment: what dead agents served, found and given to others one by one."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from netfw.errors import NotFound
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import ReadSnapshot
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.server.scheduling.failure_detector import FailureDetector


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
