"""Default security groups of projects."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.model.values.ids import SecurityGroupId
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.tables import DEFAULT_SECURITY_GROUPS

OF_PROJECT: Final = Prepared(
    select(DEFAULT_SECURITY_GROUPS.c.security_group_id).where(
        DEFAULT_SECURITY_GROUPS.c.project_id == bindparam("of_project")
    )
)


class DefaultSecurityGroups:
    """One default security group per project, also under concurrency."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, project: str) -> SecurityGroupId | None:
        """Return the project's group, or ``None``."""
        row = OF_PROJECT.first(self._connection, {"of_project": project})
        return None if row is None else SecurityGroupId(UUID(row.security_group_id))

    def set(self, project: str, group: SecurityGroupId) -> None:
        """Make *group*, which this transaction stored, the default until it is deleted.

        If another transaction was first, this one is retried and finds the other's group.
        """
        row = {"project_id": project, "security_group_id": str(group)}
        try:
            self._connection.execute(insert(DEFAULT_SECURITY_GROUPS).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"project {project!r} has a default group already") from exc
