"""Roles of highly available routers, as the L3 agents of their hosts reported them last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.model.router import HaRole
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.tables import ROUTER_ROLES

RoleKey = tuple[UUID, str]
"""A router and a host."""

_SAME: Final = (
    ROUTER_ROLES.c.router_id == bindparam("of_router"),
    ROUTER_ROLES.c.host == bindparam("of_host"),
)
SELECT_ROLES: Final = select(ROUTER_ROLES).where(
    ROUTER_ROLES.c.router_id.in_(bindparam("ids", expanding=True))
)
UPDATE_ROLE: Final = update(ROUTER_ROLES).where(*_SAME).values(role=bindparam("new_role"))
INSERT_ROLE: Final = insert(ROUTER_ROLES)
DELETE_ROLE: Final = delete(ROUTER_ROLES).where(*_SAME)


class RouterRoleRows:
    """Roles by router and host, in one transaction or snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, routers: Iterable[UUID]) -> dict[UUID, dict[str, HaRole]]:
        """Return the role of each host of each of *routers* that reported one."""
        found: dict[UUID, dict[str, HaRole]] = {id: {} for id in routers}
        ids = sorted(map(str, found))
        for at in range(0, len(ids), AT_ONCE):
            rows = self._connection.execute(SELECT_ROLES, {"ids": ids[at : at + AT_ONCE]})
            for row in rows:
                found[UUID(row.router_id)][row.host] = HaRole(row.role)
        return found

    def record(self, reported: Mapping[RoleKey, HaRole]) -> None:
        """Upsert the *reported* roles that differ from the stored ones."""
        known = self.of(router for router, _ in reported)
        updates, inserts = [], []
        for (router, host), role in reported.items():
            if known[router].get(host) is role:
                continue
            values = {"router_id": str(router), "host": host, "role": role.value}
            if host in known[router]:
                updates.append({"of_router": str(router), "of_host": host, "new_role": role.value})
            else:
                inserts.append(values)
        if updates:
            self._connection.execute(UPDATE_ROLE, updates)
        if inserts:
            try:
                self._connection.execute(INSERT_ROLE, inserts)
            except IntegrityError as exc:
                raise RetryTransaction("another transaction recorded the same role") from exc

    def delete(self, router: UUID, hosts: Iterable[str]) -> None:
        """Delete the roles of *hosts*, which do not have *router* any more."""
        gone = [{"of_router": str(router), "of_host": host} for host in sorted(hosts)]
        if gone:
            self._connection.execute(DELETE_ROLE, gone)
