"""Publish API events to the plugins that subscribe to them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.api_event import ApiEvent, ApiEventSubscriber
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import NotSupported
from netfw.server.api.schema.resource_schema import ApiResource

LOG = logging.getLogger(__name__)


def find_subscribers(plugins: Iterable[object]) -> tuple[ApiEventSubscriber, ...]:
    """Return those of *plugins* that subscribe to API events."""
    return tuple(plugin for plugin in plugins if isinstance(plugin, ApiEventSubscriber))


class PublishingPlugin(ResourcePlugin):
    """A decorator of the plugin of one resource: publishes an event before and after each change.

    The API decorates plugins only where a subscriber exists.
    """

    def __init__(
        self,
        plugin: ResourcePlugin,
        resource: ApiResource,
        subscribers: Sequence[ApiEventSubscriber],
    ) -> None:
        self._plugin, self._resource, self._subscribers = plugin, resource, tuple(subscribers)
        reads = (action.name for action in resource.actions if action.method == "GET")
        self._reads = frozenset({*reads, resource.dry_run})

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> NoReturn:
        raise NotSupported("the API makes it around a plugin")

    def describe(self) -> DriverInfo[Capability]:
        return self._plugin.describe()

    @property
    def resource_names(self) -> frozenset[str]:
        return frozenset({self._resource.name})

    def create(
        self, requester: RequestContext, name: str, bodies: Sequence[Body]
    ) -> tuple[Body, ...]:
        for body in bodies:
            self._publish("create.start", requester, body)
        created = self._plugin.create(requester, name, bodies)
        for body in created:
            self._publish("create.end", requester, body, self._id_of(body))
        return created

    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        self._publish("update.start", requester, body, id)
        updated = self._plugin.update(requester, name, id, body, revision)
        self._publish("update.end", requester, updated, self._id_of(updated))
        return updated

    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        self._publish("delete.start", requester, {}, id)
        self._plugin.delete(requester, name, id, revision)
        self._publish("delete.end", requester, {}, id)

    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        return self._plugin.find(requester, name, query)

    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        return self._plugin.show(requester, name, id)

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        if action in self._reads:
            return self._plugin.member_action(requester, name, id, action, body)
        self._publish(f"{action}.start", requester, body, id)
        result = self._plugin.member_action(requester, name, id, action, body)
        self._publish(f"{action}.end", requester, result, id)
        return result

    def _id_of(self, body: Body) -> str:
        return str(body.get(self._resource.identity, ""))

    def _publish(self, step: str, requester: RequestContext, body: Body, id: str = "") -> None:
        name = f"{self._resource.name}.{step}"
        event = ApiEvent(name=name, requester=requester, id=id, body=body)
        for subscriber in self._subscribers:
            try:
                subscriber.handle_api_event(event)
            except Exception:
                LOG.exception("event %s: subscriber failed", name)
