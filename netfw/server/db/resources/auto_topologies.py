"""Auto-allocated topologies of projects."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from attrs import frozen
from sqlalchemy import Connection, bindparam, delete, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.model.values.ids import NetworkId, RouterId
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.subnet_pool_tables import AUTO_ALLOCATED_TOPOLOGIES

_TABLE: Final = AUTO_ALLOCATED_TOPOLOGIES.c
OF_PROJECT: Final = Prepared(
    select(_TABLE.network_id, _TABLE.router_id).where(_TABLE.project_id == bindparam("of_project"))
)


@frozen(kw_only=True)
class AutoTopology:
    """The network that a project got on request, and the router to the outside."""

    project_id: str
    network_id: NetworkId
    router_id: RouterId


class AutoTopologies:
    """One topology per project at most, also under concurrency."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, project: str) -> AutoTopology | None:
        """Return the topology of *project*, or ``None``."""
        row = OF_PROJECT.first(self._connection, {"of_project": project})
        if row is None:
            return None
        network, router = NetworkId(UUID(row.network_id)), RouterId(UUID(row.router_id))
        return AutoTopology(project_id=project, network_id=network, router_id=router)

    def add(self, new: AutoTopology) -> None:
        """Store the topology of a project that has none; it goes with its network.

        If another transaction was first, this one is retried and finds the other's.
        """
        row = {
            "project_id": new.project_id,
            "network_id": str(new.network_id),
            "router_id": str(new.router_id),
        }
        try:
            self._connection.execute(insert(AUTO_ALLOCATED_TOPOLOGIES).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"project {new.project_id!r} has a topology already") from exc

    def remove(self, project: str) -> None:
        """Remove the topology of *project*.  Idempotent."""
        row = _TABLE.project_id == project
        self._connection.execute(delete(AUTO_ALLOCATED_TOPOLOGIES).where(row))
