"""Resources of vendors, which the model does not have, in the form of the API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from netfw.errors.registry import not_found
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.schema.tables import VENDOR_RESOURCES

Json = Mapping[str, Any]
COLUMNS = frozenset({"id", "project_id", "name", "parent_id"})
"""Attributes with a column, which queries can filter by."""


class VendorResources:
    """The resources of one name, in one transaction or snapshot."""

    def __init__(self, connection: Connection, resource: str) -> None:
        self._connection, self._resource = connection, resource

    def find(
        self,
        wanted: Mapping[str, Sequence[str]],
        *,
        project: str | None = None,
        or_shared: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the resources with one of the values in each of the columns *wanted*, by id.

        With *project*: its own alone; *or_shared*: and those of others that are shared.
        """
        rows = select(VENDOR_RESOURCES.c.body).where(VENDOR_RESOURCES.c.resource == self._resource)
        for column, values in wanted.items():
            rows = rows.where(VENDOR_RESOURCES.c[column].in_(values))
        if project is not None:
            rows = rows.where(_visible(project, or_shared))
        found = self._connection.execute(rows.order_by(VENDOR_RESOURCES.c.id)).scalars()
        return [json.loads(text) for text in found]

    def get(
        self,
        id: UUID,
        *,
        project: str | None = None,
        or_shared: bool = False,
        lock: bool = False,
    ) -> dict[str, Any]:
        """Return the resource of that id.

        :raises NotFound: it does not exist, or *project* cannot see it.
        """
        row = select(VENDOR_RESOURCES.c.body).where(*self._key(id))
        if project is not None:
            row = row.where(_visible(project, or_shared))
        text = self._connection.execute(row.with_for_update() if lock else row).scalar()
        if text is None:
            raise not_found(self._resource)(f"there is no {self._resource} {id}")
        body: dict[str, Any] = json.loads(text)
        return body

    def insert(self, *bodies: Json, parent: str | None = None) -> None:
        """Insert resources; *parent* is the attribute with the id of the parent."""
        rows = [
            {
                "resource": self._resource,
                "id": body["id"],
                "parent_id": None if parent is None else body[parent],
                **_columns(body),
            }
            for body in bodies
        ]
        try:
            self._connection.execute(insert(VENDOR_RESOURCES), rows)
        except IntegrityError as exc:
            raise RetryTransaction(f"another transaction stored the same {self._resource}") from exc

    def update(self, before: Json, after: Json) -> None:
        """Replace *before*, which this transaction read, by *after*."""
        same = VENDOR_RESOURCES.c.revision == before["revision_number"]
        change = (
            update(VENDOR_RESOURCES).where(*self._key(before["id"]), same).values(_columns(after))
        )
        if self._connection.execute(change).rowcount != 1:
            raise RetryTransaction(f"{self._resource} {before['id']} was changed meanwhile")

    def delete(self, id: UUID) -> None:
        """Delete one."""
        self._connection.execute(delete(VENDOR_RESOURCES).where(*self._key(id)))

    def _key(self, id: object) -> tuple[Any, ...]:
        return VENDOR_RESOURCES.c.resource == self._resource, VENDOR_RESOURCES.c.id == str(id)


def _visible(project: str, or_shared: bool) -> ColumnElement[bool]:
    """Return the condition of what *project* sees."""
    own = VENDOR_RESOURCES.c.project_id == project
    return or_(own, VENDOR_RESOURCES.c.shared.is_(True)) if or_shared else own


def _columns(body: Json) -> dict[str, Any]:
    return {
        "project_id": body["project_id"],
        "name": body.get("name") or "",
        "revision": body["revision_number"],
        "shared": body.get("shared") is True,
        "body": json.dumps(body, separators=(",", ":"), ensure_ascii=False),
    }
