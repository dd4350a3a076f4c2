"""ResourcePlugin: what core and service plugins have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from uuid import UUID

from netfw.drivers.base import Driver
from netfw.drivers.query import Attributes, Query, Requester, Shown


class ResourcePlugin(Driver):
    """Stores resources of the API.

    Called by the request's thread, several at once, outside any transaction: a plugin opens its
    own, one for each call, and leaves none open.  Bodies are validated and let through by policy
    before it is called.  Promises:

    1. ``create`` makes all of a list or none of it.
    2. A change is committed with its revision and its journal entry, or not at all; agents are
       told after the commit, never before.
    3. ``update`` and ``delete`` with a revision change only what still has that revision.
    4. What the requester may not see does not exist for it.
    5. A transaction that was refused because of another one is tried again, out of sight.
    """

    @abstractmethod
    def resource_names(self) -> frozenset[str]:
        """The resources it stores, by their names in the API.  Constant."""

    @abstractmethod
    def create(
        self, requester: Requester, name: str, bodies: Sequence[Attributes]
    ) -> tuple[Shown, ...]:
        """Make resources, in order.

        :raises RequestError: one of them can not be, and none is made.
        """

    @abstractmethod
    def update(
        self,
        requester: Requester,
        name: str,
        id: UUID,
        body: Attributes,
        revision: int | None = None,
    ) -> Shown:
        """Change what *body* names, and nothing else.

        :raises NotFound: there is none, or none that the requester may see.
        :raises Conflict: it has another revision, or something else stands against it.
        """

    @abstractmethod
    def delete(
        self, requester: Requester, name: str, id: UUID, revision: int | None = None
    ) -> None:
        """Delete one.

        :raises NotFound: there is none, or none that the requester may see.
        :raises Conflict: it has another revision, or is in use; the text says by what.
        """

    @abstractmethod
    def find(self, requester: Requester, name: str, query: Query) -> tuple[Shown, ...]:
        """The resources that *query* asks for; in a number of statements that does not grow."""
