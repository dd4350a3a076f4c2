"""FirewallDocumentHandler: documents with attributes that the API does not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.server.core.document_handler import DocumentHandler
from netfw.server.core.resource_handler import Reader
from netfw.server.core.unit_of_work import UnitOfWork


class FirewallDocumentHandler(DocumentHandler):
    """Documents that have a quota and no tags, and that other projects see if they are shared."""

    def __init__(self, name: str, hidden: str | None = None) -> None:
        """*hidden*: an attribute for the server alone, which may name what others own."""
        super().__init__(name, counted=True, shareable=True, tagged=False)
        self._hidden = hidden

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        made = self._derived(unit.tx, self.do_create(unit, bodies))
        return tuple(map(self._visible, made))

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        return self.change(unit, self.get_for_update(unit, id, revision), body)

    def change(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        """Store *before*, which this transaction locked, as *body* changes it, and show it."""
        (after,) = self._derived(unit.tx, [self.do_update(unit, before, body)])
        return self._visible(after)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        return tuple(map(self._visible, super().find(reader, requester, query)))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        return self._visible(super().show(reader, requester, id))

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        """Create the documents; subclasses check them, and return them whole."""
        return super().create(unit, bodies)

    def _visible(self, body: Body) -> Body:
        return {name: value for name, value in body.items() if name != self._hidden}
