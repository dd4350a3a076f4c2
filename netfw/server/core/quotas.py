"""QuotaHandler: the limits of projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import InvalidInput, merge_invalid, nearest
from netfw.errors.quotas import TenantQuotaNotFound
from netfw.errors.requests import HTTPBadRequest
from netfw.model.values.text_validation import check_text
from netfw.server.core.resource_handler import Reader, ResourceHandler, apply_query
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.quotas import UNLIMITED, Usage

FLAGS = ("check_limit", "force")
"""Attributes of a request that are not limits; the first is the default, and has no effect."""
IDENTITY = ("project_id", "tenant_id")


class QuotaHandler(ResourceHandler):
    """The limits of projects; the id of a quota is that of its project.

    A project has the defaults until limits are set for it, and again after they were deleted. Use
    is counted when a resource is created, so nothing is ever reserved. The names of the defaults
    are the counted resources; they grow by vendors' declarations while the server is assembled.
    """

    name: ClassVar[str] = "quota"
    reading_actions: ClassVar[frozenset[str]] = frozenset({"default", "details"})

    def __init__(self, defaults: Mapping[str, int]) -> None:
        self._defaults = defaults

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        """Return the projects that have limits of their own."""
        every = reader.quotas.all()
        seen = [each for each in every if requester.sees in (None, each)]
        return apply_query((self._shown(each, every[each]) for each in seen), query, "project_id")

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        _check(requester, id)
        return self._shown(id, reader.quotas.of_project(id))

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        _check(unit.requester, id)
        _check_length(id)
        limits: dict[str, Any] = {
            name: body[name] for name in body if name not in (*FLAGS, *IDENTITY)
        }
        self._check(limits)
        usages = unit.tx.quotas.of_project(id)
        if not body.get("force"):
            _check_use(limits, usages)
        for name in sorted(limits):
            unit.tx.quotas.set_limit(id, name, limits[name])
        return self.show(unit.tx, unit.requester, id)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        _check(unit.requester, id)
        usages = unit.tx.quotas.of_project(id)
        limited = sorted(name for name, usage in usages.items() if usage.allowed is not None)
        if not limited:
            raise TenantQuotaNotFound(f"project {id} has no limits of its own")
        for name in limited:
            unit.tx.quotas.set_limit(id, name, None)

    def read_action(self, reader: Reader, requester: RequestContext, id: str, action: str) -> Body:
        _check(requester, id)
        if action == "default":
            return {"project_id": id, **self._defaults}
        return self._details(reader, id)

    def _details(self, reader: Reader, project: str) -> Body:
        usages = reader.quotas.of_project(project)
        details: dict[str, Any] = {
            name: {
                "limit": self._limit(name, usages),
                "used": usages[name].used if name in usages else 0,
                "reserved": 0,
            }
            for name in self._defaults
        }
        return {"project_id": project, **details}

    def _shown(self, project: str, usages: Mapping[str, Usage]) -> Body:
        limits = {name: self._limit(name, usages) for name in self._defaults}
        return {"project_id": project, "tenant_id": project, **limits}

    def _limit(self, name: str, usages: Mapping[str, Usage]) -> int:
        usage = usages.get(name)
        if usage is None or usage.allowed is None:
            return self._defaults[name]
        return usage.allowed

    def _check(self, limits: Mapping[str, object]) -> None:
        errors: list[InvalidInput] = []
        for name, limit in limits.items():
            if name not in self._defaults:
                text = f"is not counted{nearest(name, self._defaults)}"
                errors.insert(0, HTTPBadRequest({name: text}))
            elif not isinstance(limit, int) or isinstance(limit, bool) or limit < UNLIMITED:
                text = f"{limit!r} is no limit: give a number, or {UNLIMITED} for any"
                errors.append(InvalidInput({name: text}))
        if errors:
            raise merge_invalid(errors)


def _check(requester: RequestContext, project: str) -> None:
    """Hide the limits of a project from requesters of other projects."""
    if requester.sees not in (None, project):
        raise TenantQuotaNotFound(f"there is no quota of project {project[:80]!r}")


def _check_length(project: str) -> None:
    """Refuse what no project can be named: a database would, as if it did not work."""
    try:
        check_text(project)
    except ValueError as exc:
        raise InvalidInput({"project_id": str(exc)}) from exc


def _check_use(limits: Mapping[str, Any], usages: Mapping[str, Usage]) -> None:
    for name, limit in limits.items():
        used = usages[name].used if name in usages else 0
        if UNLIMITED < limit < used:
            text = f"the project has {used} already, more than {limit}; delete some, or give force"
            raise HTTPBadRequest({name: text})
