"""The security groups of ports in a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast
from uuid import UUID

from netfw.drivers.query import Body, Query
from netfw.errors import InvalidInput, NotFound
from netfw.model.ids import SecurityGroupId
from netfw.model.resource import Kind
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.groups import default_group


class Groups:
    """The groups that the bodies of one request name, and those of who names none.

    :raises NotFound: one does not exist, or is none that the requester may see.
    """

    def __init__(self, unit: UnitOfWork, bodies: Iterable[Body]) -> None:
        self._unit = unit
        self._defaults: dict[str, frozenset[SecurityGroupId]] = {}
        wanted = {each for body in bodies for each in _named(body) or ()}
        if not wanted:
            return
        query = Query(filters={"id": tuple(sorted(map(str, wanted)))})
        found = unit.tx.resources.find(Kind.SECURITY_GROUP, query, project=unit.requester.sees)
        missing = wanted - {SecurityGroupId(row.ref.id) for row in found}
        if missing:
            raise NotFound(f"there is no security_group {min(missing)}")

    def of(self, body: Body) -> frozenset[SecurityGroupId] | None:
        """Those that *body* names; ``None``: it leaves them to others."""
        return _named(body)

    def default(self, project: str) -> frozenset[SecurityGroupId]:
        """Those of a project's ports that name none."""
        if project not in self._defaults:
            self._defaults[project] = frozenset({default_group(self._unit, project)})
        return self._defaults[project]


def _named(body: Body) -> frozenset[SecurityGroupId] | None:
    named = cast("Sequence[str] | None", body.get("security_groups"))
    if named is None:
        return None
    try:
        return frozenset(SecurityGroupId(UUID(str(each))) for each in named)
    except ValueError as exc:
        raise InvalidInput({"security_groups": str(exc)}) from exc
