"""Which host serves which network or router."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.drivers.interest import Service
from netfw.messaging.reach import Assignment, Item, Root
from netfw.model.resource import Kind, Ref
from netfw.server.db.failure import Overtaken
from netfw.server.db.journal import Journal
from netfw.server.db.schema import ASSIGNMENTS
from netfw.server.db.topics import topic


class Assignments:
    """What schedulers decided, in one transaction."""

    def __init__(
        self,
        connection: Connection,
        journal: Journal,
        noticed: Callable[[Item | None, Item | None], None],
    ) -> None:
        self._connection, self._journal, self._noticed = connection, journal, noticed

    def add(self, new: Assignment) -> None:
        """Have a host serve; what it serves already stays so."""
        if new in self.of([new.ref]):
            return
        row = {
            "service": new.service.value,
            "host": new.host,
            "resource_id": str(new.ref.id),
            "kind": new.ref.kind.value,
        }
        try:
            self._connection.execute(insert(ASSIGNMENTS).values(row))
        except IntegrityError as exc:
            raise Overtaken(f"another transaction has {new.host} serve the same") from exc
        self._tell(None, new)

    def remove(self, old: Assignment) -> None:
        """Have a host serve no more; what it does not serve stays so."""
        gone = delete(ASSIGNMENTS).where(
            ASSIGNMENTS.c.service == old.service.value,
            ASSIGNMENTS.c.host == old.host,
            ASSIGNMENTS.c.resource_id == str(old.ref.id),
        )
        if self._connection.execute(gone).rowcount:
            self._tell(old, None)

    def of(self, refs: Iterable[Ref]) -> frozenset[Assignment]:
        """Who serves *refs*."""
        ids = [str(each.id) for each in refs]
        rows = self._connection.execute(
            select(ASSIGNMENTS).where(ASSIGNMENTS.c.resource_id.in_(ids))
        )
        return frozenset(
            Assignment(Service(row.service), row.host, Ref(Kind(row.kind), UUID(row.resource_id)))
            for row in rows
        )

    def _tell(self, before: Assignment | None, after: Assignment | None) -> None:
        for each in (before, after):
            if each is not None:
                self._journal.note(each.ref, [topic(Root(each.service, each.host))])
        self._noticed(before, after)
