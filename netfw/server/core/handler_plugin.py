"""HandlerPlugin: the verbs of the API, executed by resource handlers."""

from __future__ import annotations

from collections.abc import Sequence

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import NotSupported
from netfw.server.core.create_batches import CreateBatches
from netfw.server.core.resource_handler import ResourceHandler, StoredResourceHandler
from netfw.server.core.server_context import ServerContext


class HandlerPlugin(ResourcePlugin):
    """Plugin whose resources all have handlers; each verb is one transaction."""

    def __init__(self, context: ServerContext, handlers: Sequence[ResourceHandler]) -> None:
        self.context = context
        self.batches = CreateBatches(context)
        self._handlers = {handler.name: handler for handler in handlers}
        context.handlers.update(self._handlers)

    @property
    def resource_names(self) -> frozenset[str]:
        return frozenset(self._handlers)

    def create(
        self, requester: RequestContext, name: str, bodies: Sequence[Body]
    ) -> tuple[Body, ...]:
        handler = self._handler(name)
        if len(bodies) == 1 and isinstance(handler, StoredResourceHandler) and handler.batched:
            return (self.batches.create(requester, handler, bodies[0]),)
        return self.context.run(requester, handler.create, bodies)

    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        return self.context.run(requester, self._handler(name).update, id, body, revision)

    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        self.context.run(requester, self._handler(name).delete, id, revision)

    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        return self.context.read(self._handler(name).find, requester, query)

    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        return self.context.read(self._handler(name).show, requester, id)

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        handler = self._handler(name)
        if action in handler.reading_actions:
            return self.context.read(handler.read_action, requester, id, action)
        return self.context.run(requester, handler.act, id, action, body)

    def _handler(self, name: str) -> ResourceHandler:
        try:
            return self._handlers[name]
        except KeyError:
            raise NotSupported(f"this plugin does not handle {name}") from None
