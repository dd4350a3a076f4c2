"""ResourcePlugin: base of core and service plugins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from netfw.drivers.base import Driver
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import NotSupported


class ResourcePlugin(Driver):
    """Stores resources of the API.

    Called by the request's thread, several at once, outside any transaction: a plugin opens its
    own, one for each call, and leaves none open.  Bodies are validated, normalised and authorised
    by policy before the call; those of ``create`` have every attribute that has a default.  A
    sub-resource has the id of its parent among its attributes and filters, and
    ``<parent id>/<id>`` as its own id in ``show``, ``update``, ``delete`` and ``member_action``.
    Promises:

    1. ``create`` makes all of a list or none of it.
    2. A change is committed with its revision and its journal entry, or not at all; agents are
       notified after the commit, never before.
    3. ``update`` and ``delete`` with a revision change a resource only at that revision.
    4. A resource that the requester may not see does not exist for it.
    5. A transaction that conflicts with another one is retried inside the plugin.
    """

    @property
    @abstractmethod
    def resource_names(self) -> frozenset[str]:
        """Names in the API of the resources that it stores.  Constant."""

    @abstractmethod
    def create(
        self, requester: RequestContext, name: str, bodies: Sequence[Body]
    ) -> tuple[Body, ...]:
        """Create resources, in order, and return them as they are shown.

        :raises RequestError: one of them is impossible, and none is made.
        """

    @abstractmethod
    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        """Change the attributes in *body*, and nothing else.

        :raises NotFound: there is none, or none that the requester may see.
        :raises Outdated: it has another revision.
        :raises Conflict: the change contradicts something that exists.
        """

    @abstractmethod
    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        """Delete a resource.

        :raises NotFound: there is none, or none that the requester may see.
        :raises Outdated: it has another revision.
        :raises Conflict: it is in use; the text says by what.
        """

    @abstractmethod
    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        """Return the resources that match *query*, with a constant number of SQL statements."""

    @abstractmethod
    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        """Return one resource.

        :raises NotFound: there is none, or none that the requester may see.
        """

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        """Execute a member action, such as adding an interface to a router, as one change.

        :raises NotSupported: the resource has no such action.
        :raises NotFound: there is no such resource, or none that the requester may see.
        :raises RequestError: the action is impossible.
        """
        raise NotSupported(f"a {name} has no action {action!r}")
