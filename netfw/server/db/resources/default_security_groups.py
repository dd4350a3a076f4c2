"""The security group that a project's ports are in when nobody names one."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.model.ids import SecurityGroupId
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.tables import DEFAULT_SECURITY_GROUPS

OF_PROJECT: Final = Prepared(
    select(DEFAULT_SECURITY_GROUPS.c.security_group_id).where(
        DEFAULT_SECURITY_GROUPS.c.project_id == bindparam("of_project")
    )
)


class DefaultSecurityGroups:
    """One group per project, however many ask for it at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, project: str) -> SecurityGroupId | None:
        """The project's group, if it has one yet."""
        found = OF_PROJECT.first(self._connection, {"of_project": project})
        return None if found is None else SecurityGroupId(UUID(found.security_group_id))

    def set(self, project: str, group: SecurityGroupId) -> None:
        """Have *group*, which this transaction stored, be it; it is so until the group is deleted.

        When another transaction was first, this one is done again and finds that one's.
        """
        row = {"project_id": project, "security_group_id": str(group)}
        try:
            self._connection.execute(insert(DEFAULT_SECURITY_GROUPS).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"project {project!r} has a default group already") from exc
