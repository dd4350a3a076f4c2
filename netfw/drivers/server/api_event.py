"""API events: what a request is about to do, and what it has done."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from attrs import frozen

from netfw.drivers.server.query import Body, RequestContext


@frozen(kw_only=True)
class ApiEvent:
    """One step of a request that changes a resource.

    ``<resource>.<action>.start`` precedes the call of the plugin that stores the resource;
    ``<resource>.<action>.end`` follows its commit.  A request that fails has no ``.end``.
    """

    name: str
    """``port.create.start``, ``router.add_router_interface.end``."""
    requester: RequestContext
    id: str = ""
    """Id of the resource; empty until the resource exists."""
    body: Body
    """At the start the attributes of the request, at the end the resource; empty after a delete."""


@runtime_checkable
class ApiEventSubscriber(Protocol):
    """A core or service plugin that subscribes to API events by having this method."""

    def handle_api_event(self, event: ApiEvent) -> None:
        """Handle *event* in the thread of its request, which waits: return quickly.

        Called by several threads at once.  An exception is logged and does not affect the request.
        """
