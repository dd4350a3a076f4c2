"""ResourcePlugin: what core and service plugins have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from netfw.drivers.base import Driver
from netfw.drivers.query import Body, Query, RequestContext
from netfw.errors import NotSupported


class ResourcePlugin(Driver):
    """Stores resources of the API.

    Called by the request's thread, several at once, outside any transaction: a plugin opens its
    own, one for each call, and leaves none open.  Bodies are validated, normalised and let through
    by policy before it is called; those of ``create`` have every attribute that has a default.  A
    sub-resource has the id of its parent among its attributes and filters, and as its own id, in
    ``show``, ``update``, ``delete`` and ``act``, ``<parent id>/<id>``.  Promises:

    1. ``create`` makes all of a list or none of it.
    2. A change is committed with its revision and its journal entry, or not at all; agents are
       told after the commit, never before.
    3. ``update`` and ``delete`` with a revision change only what still has that revision.
    4. What the requester may not see does not exist for it.
    5. A transaction that was refused because of another one is tried again, out of sight.
    """

    @property
    @abstractmethod
    def resource_names(self) -> frozenset[str]:
        """The resources it stores, by their names in the API.  Constant."""

    @abstractmethod
    def create(
        self, requester: RequestContext, name: str, bodies: Sequence[Body]
    ) -> tuple[Body, ...]:
        """Make resources, in order, and return them as they are shown.

        :raises RequestError: one of them cannot be, and none is made.
        """

    @abstractmethod
    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        """Change what *body* names, and nothing else.

        :raises NotFound: there is none, or none that the requester may see.
        :raises Outdated: it has another revision.
        :raises Conflict: something stands against it.
        """

    @abstractmethod
    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        """Delete one.

        :raises NotFound: there is none, or none that the requester may see.
        :raises Outdated: it has another revision.
        :raises Conflict: it is in use; the text says by what.
        """

    @abstractmethod
    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        """The resources that *query* asks for; in a number of statements that does not grow."""

    @abstractmethod
    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        """One resource.

        :raises NotFound: there is none, or none that the requester may see.
        """

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        """Carry out a member action, such as adding an interface to a router, as one change.

        :raises NotSupported: the resource has no such action.
        :raises NotFound: there is no such resource, or none that the requester may see.
        :raises RequestError: it cannot be.
        """
        raise NotSupported(f"a {name} has no action {action!r}")
