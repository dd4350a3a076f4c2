"""KeepingPlugin: the verbs of the API, carried out by keepers."""

from __future__ import annotations

from collections.abc import Sequence

from netfw.drivers.query import Body, Query, RequestContext
from netfw.drivers.resource_plugin import ResourcePlugin
from netfw.errors import NotSupported
from netfw.server.core.context import ServerContext
from netfw.server.core.resource_handler import ResourceHandler


class HandlerPlugin(ResourcePlugin):
    """A plugin all of whose resources have keepers; each verb is one transaction."""

    def __init__(self, backbone: ServerContext, keepers: Sequence[ResourceHandler]) -> None:
        self.backbone = backbone
        self._keepers = {keeper.name: keeper for keeper in keepers}
        backbone.keepers.update(self._keepers)

    @property
    def resource_names(self) -> frozenset[str]:
        return frozenset(self._keepers)

    def create(
        self, requester: RequestContext, name: str, bodies: Sequence[Body]
    ) -> tuple[Body, ...]:
        keeper = self._keeper(name)
        return self.backbone.run(requester, lambda unit: keeper.create(unit, bodies))

    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        keeper = self._keeper(name)
        return self.backbone.run(requester, lambda unit: keeper.update(unit, id, body, revision))

    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        keeper = self._keeper(name)
        self.backbone.run(requester, lambda unit: keeper.delete(unit, id, revision))

    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        keeper = self._keeper(name)
        return self.backbone.read(lambda view: keeper.find(view, requester, query))

    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        keeper = self._keeper(name)
        return self.backbone.read(lambda view: keeper.show(view, requester, id))

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        keeper = self._keeper(name)
        return self.backbone.run(requester, lambda unit: keeper.act(unit, id, action, body))

    def _keeper(self, name: str) -> ResourceHandler:
        try:
            return self._keepers[name]
        except KeyError:
            raise NotSupported(f"this plugin keeps no {name}") from None
