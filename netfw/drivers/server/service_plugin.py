"""ServicePlugin: stores resources beside networks and ports, such as routers."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from netfw.drivers.server.change import Change
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.drivers.values.agent_requests import Request
from netfw.errors import NotSupported

R = TypeVar("R")


class ServicePlugin(ResourcePlugin):
    """Stores resources of its own, and validates changes of other resources.

    Its resources and their policy are declared by an :class:`~netfw.drivers.server.api_extension`.
    Promises beyond those of :class:`ResourcePlugin`:

    1. No other plugin stores the same resources; with two, the server refuses to start and names
       both.
    2. ``validate`` is called in the transaction of a request on any resource, its own included, and
       again when the transaction is retried: it does no I/O but the database, and does not wait.
       Its exception rolls the request back.
    3. ``member_action`` executes one member action as one change, like ``update``.
    4. ``handle_request`` is idempotent: the same request gives an equal answer and no second
       effect.
    5. It uses other plugins through the verbs of the API, never through their storage.
    """

    GROUP: ClassVar[str] = "netfw.service_plugins"
    VERSION: ClassVar[int] = 2

    def validate(self, change: Change) -> None:
        """Validate a change of any resource before it is committed.

        :raises RequestError: the change is impossible; the API returns this error.
        """

    def handle_request(self, request: Request[R]) -> R:
        """Handle a request of an agent.

        :raises NotSupported: the plugin handles no requests of that type; the next one is tried.
        :raises RequestError: the request is impossible; the agent gets this error.
        """
        raise NotSupported(f"no plugin handles {type(request).__name__}")
