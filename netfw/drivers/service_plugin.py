"""ServicePlugin: stores what stands beside networks and ports, such as routers."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from netfw.drivers.agent_requests import Request
from netfw.drivers.change import Change
from netfw.drivers.resource_plugin import ResourcePlugin
from netfw.errors import NotSupported

R = TypeVar("R")


class ServicePlugin(ResourcePlugin):
    """Stores resources of its own, and watches over those of others that it depends on.

    Its resources and their policy are declared by an :class:`~netfw.drivers.api_extension`.
    Promises beyond those of :class:`ResourcePlugin`:

    1. No other plugin stores the same resources; the server refuses to start with two, naming
       both.
    2. ``check`` is called in the transaction of a request on any resource, its own included: no
       I/O but the database, no waiting, again when it is retried.  What it raises rolls back.
    3. ``act`` carries out one member action as one change, like ``update``.
    4. ``answer`` is idempotent: the same request gives an equal answer and no second effect.
    5. It reaches other plugins through the API's own verbs, never through their storage.
    """

    GROUP: ClassVar[str] = "netfw.service_plugins"
    VERSION: ClassVar[int] = 1

    def check(self, change: Change) -> None:
        """Accept a change of any resource, or refuse it before it is committed.

        :raises RequestError: it cannot be; the API answers with it.
        """

    def answer(self, request: Request[R]) -> R:
        """Answer an agent.

        :raises NotSupported: it does not answer that kind of request; the next one is asked.
        :raises RequestError: it cannot be; the agent gets it.
        """
        raise NotSupported(f"nobody answers {type(request).__name__}")
