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
        return self.backbone.run(requester, self._keeper(name).create, bodies)

    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        return self.backbone.run(requester, self._keeper(name).update, id, body, revision)

    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        self.backbone.run(requester, self._keeper(name).delete, id, revision)

    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        return self.backbone.read(self._keeper(name).find, requester, query)

    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        return self.backbone.read(self._keeper(name).show, requester, id)

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        return self.backbone.run(requester, self._keeper(name).act, id, action, body)

    def _keeper(self, name: str) -> ResourceHandler:
        try:
            return self._keepers[name]
        except KeyError:
            raise NotSupported(f"this plugin keeps no {name}") from None
