"""Quotas: usage counters and limits per project and resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from netfw.errors import OverQuota
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.schema.tables import QUOTAS

UNLIMITED: Final = -1

_COUNT: Final[BindParameter[int]] = bindparam("count")
_LIMIT = func.coalesce(QUOTAS.c.allowed, bindparam("default"))
_UPDATE_USED = (
    update(QUOTAS)
    .where(QUOTAS.c.project_id == bindparam("project"), QUOTAS.c.resource == bindparam("of"))
    .values(used=QUOTAS.c.used + _COUNT)
)
UPDATE_USED: Final = Prepared(_UPDATE_USED)
UPDATE_USED_WITHIN_LIMIT: Final = Prepared(
    _UPDATE_USED.where(or_(_LIMIT < 0, QUOTAS.c.used + _COUNT <= _LIMIT))
)


@frozen
class Usage:
    """The usage of a project of one resource; *allowed* is ``None`` where the default applies."""

    used: int
    allowed: int | None

    def limit(self, default: int) -> int:
        """Return the limit; *default* is the one where none is set."""
        return default if self.allowed is None else self.allowed


class Quotas:
    """Counters per project and resource, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def use(self, project: str, resource: str, count: int, default: int) -> None:
        """Add *count*, which may be negative; *default* is the limit where none is set.

        Call it late in a transaction: other transactions of the project wait for its end.

        :raises OverQuota: the usage would exceed the limit.
        """
        values: dict[str, Any] = {"project": project, "of": resource, "count": count}
        if count > 0:
            done = UPDATE_USED_WITHIN_LIMIT.count(self._connection, {**values, "default": default})
        else:
            done = UPDATE_USED.count(self._connection, values)
        if done == 1:
            return
        usage = self.of_project(project).get(resource)
        if usage is None:
            self._insert(project, resource)
            self.use(project, resource, count, default)
            return
        limit = usage.limit(default)
        if count <= 0 or not UNLIMITED < limit < usage.used + count:
            raise RetryTransaction("another transaction inserted the counter meanwhile")
        raise _over_quota(project, resource, usage.used, limit, count)

    def check(self, project: str, resource: str, count: int, default: int) -> None:
        """Check whether *count* more are within the limit now; `use` decides.

        :raises OverQuota: the usage would exceed the limit.
        """
        usage = self.of_project(project).get(resource, Usage(0, None))
        limit = usage.limit(default)
        if UNLIMITED < limit < usage.used + count:
            raise _over_quota(project, resource, usage.used, limit, count)

    def grant(self, project: str, resource: str, count: int) -> None:
        """Add *count* whatever the limit is."""
        values = {"project": project, "of": resource, "count": count}
        if UPDATE_USED.count(self._connection, values) == 0:
            self._insert(project, resource)
            UPDATE_USED.count(self._connection, values)

    def set_limit(self, project: str, resource: str, allowed: int | None) -> None:
        """Set the limit; -1: unlimited; ``None``: the default."""
        change = update(QUOTAS).where(*_of(project, resource)).values(allowed=allowed)
        if self._connection.execute(change).rowcount == 0:
            self._insert(project, resource)
            self._connection.execute(change)

    def of_project(self, project: str) -> Mapping[str, Usage]:
        """Return the usage of *project* by resource."""
        rows = select(QUOTAS).where(QUOTAS.c.project_id == project)
        return {row.resource: _usage(row) for row in self._connection.execute(rows)}

    def all(self) -> Mapping[str, Mapping[str, Usage]]:
        """Return the usage of all projects that have a limit of their own."""
        limited = select(QUOTAS.c.project_id).where(QUOTAS.c.allowed.is_not(None))
        rows = select(QUOTAS).where(QUOTAS.c.project_id.in_(limited)).order_by(QUOTAS.c.project_id)
        found: dict[str, dict[str, Usage]] = {}
        for row in self._connection.execute(rows):
            found.setdefault(row.project_id, {})[row.resource] = _usage(row)
        return found

    def _insert(self, project: str, resource: str) -> None:
        row = {"project_id": project, "resource": resource, "used": 0}
        try:
            self._connection.execute(insert(QUOTAS).values(row))
        except IntegrityError as exc:
            raise RetryTransaction("another transaction inserted the same counter") from exc


def _over_quota(project: str, resource: str, used: int, limit: int, count: int) -> OverQuota:
    return OverQuota(
        f"quota exceeded: project {project!r} has {used} of {limit} {resource}, and requests "
        f"{count} more"
    )


def _of(project: str, resource: str) -> tuple[ColumnElement[bool], ...]:
    return QUOTAS.c.project_id == project, QUOTAS.c.resource == resource


def _usage(row: Any) -> Usage:
    return Usage(row.used, row.allowed)
