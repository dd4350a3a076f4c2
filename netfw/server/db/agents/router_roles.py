"""Roles of highly available routers, as the L3 agents of their hosts reported them last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from attrs import frozen
from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.model.router import HaRole
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.tables import ROUTER_ROLES

RoleKey = tuple[UUID, str]
"""A router and a host."""


@frozen
class HostRole:
    """The role of a host, and since when: in microseconds of a boot of the host."""

    role: HaRole
    boot: UUID | None = None
    since: int = 0

    def is_overtaken_by(self, other: HostRole) -> bool:
        """Return whether the host took the role of *other* later."""
        return self.boot is not None and self.boot == other.boot and self.since < other.since


_SAME: Final = (
    ROUTER_ROLES.c.router_id == bindparam("of_router"),
    ROUTER_ROLES.c.host == bindparam("of_host"),
)
SELECT_ROLES: Final = select(ROUTER_ROLES).where(
    ROUTER_ROLES.c.router_id.in_(bindparam("ids", expanding=True))
)
UPDATE_ROLE: Final = (
    update(ROUTER_ROLES)
    .where(*_SAME)
    .values(role=bindparam("new_role"), boot=bindparam("new_boot"), since=bindparam("new_since"))
)
INSERT_ROLE: Final = insert(ROUTER_ROLES)
DELETE_ROLE: Final = delete(ROUTER_ROLES).where(*_SAME)


class RouterRoleRows:
    """Roles by router and host, in one transaction or snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self, routers: Iterable[UUID]) -> dict[RoleKey, HostRole]:
        """Return the role of each host of *routers* that reported one, with its time."""
        ids = sorted({str(id) for id in routers})
        found: dict[RoleKey, HostRole] = {}
        for at in range(0, len(ids), AT_ONCE):
            for row in self._connection.execute(SELECT_ROLES, {"ids": ids[at : at + AT_ONCE]}):
                boot = UUID(row.boot) if row.boot else None
                key = (UUID(row.router_id), row.host)
                found[key] = HostRole(HaRole(row.role), boot, row.since or 0)
        return found

    def of(self, routers: Iterable[UUID]) -> dict[UUID, dict[str, HaRole]]:
        """Return the role of each host of each of *routers* that reported one."""
        found: dict[UUID, dict[str, HaRole]] = {id: {} for id in routers}
        for (router, host), known in self.read(found).items():
            found[router][host] = known.role
        return found

    def record(self, reported: Mapping[RoleKey, HostRole]) -> dict[RoleKey, HostRole]:
        """Upsert the *reported* roles of routers that are locked; return those that are valid.

        One that was overtaken by the stored one is not.
        """
        known = self.read(router for router, _ in reported)
        valid = {
            key: new
            for key, new in reported.items()
            if key not in known or not new.is_overtaken_by(known[key])
        }
        changed = {key: new for key, new in valid.items() if known.get(key) != new}
        updates = [_values(key, new) for key, new in changed.items() if key in known]
        inserts = [_row(key, new) for key, new in changed.items() if key not in known]
        if updates:
            self._connection.execute(UPDATE_ROLE, updates)
        if inserts:
            try:
                self._connection.execute(INSERT_ROLE, inserts)
            except IntegrityError as exc:
                raise RetryTransaction("another transaction recorded the same role") from exc
        return valid

    def delete(self, router: UUID, hosts: Iterable[str]) -> None:
        """Delete the roles of *hosts*, which do not have *router* any more."""
        gone = [{"of_router": str(router), "of_host": host} for host in sorted(hosts)]
        if gone:
            self._connection.execute(DELETE_ROLE, gone)


def _row(key: RoleKey, new: HostRole) -> dict[str, object]:
    router, host = key
    return {
        "router_id": str(router),
        "host": host,
        "role": new.role.value,
        "boot": None if new.boot is None else str(new.boot),
        "since": new.since,
    }


def _values(key: RoleKey, new: HostRole) -> dict[str, object]:
    """Return the parameters of an update."""
    row = _row(key, new)
    of = {"of_router": row["router_id"], "of_host": row["host"]}
    return of | {f"new_{name}": row[name] for name in ("role", "boot", "since")}
