"""Queries of the API to plugins, and the context of a request."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import evolve, field, frozen

from netfw.drivers.server.attribute import Value
from netfw.model.wire import Json

Body = Mapping[str, Json]
"""Attributes by name, in the form of the API: a resource, or the body of a request."""


@frozen(kw_only=True)
class RequestContext:
    """The requester; authenticated, and authorised by policy."""

    project_id: str
    user: str = ""
    roles: frozenset[str] = frozenset()
    admin: bool = False
    """May see and change everything."""
    request_id: str = ""

    @property
    def sees(self) -> str | None:
        """The project whose resources it sees; ``None``: all."""
        return None if self.admin else self.project_id

    def elevated(self) -> RequestContext:
        """Return the same context with administrator rights, for the server's own actions."""
        return evolve(self, admin=True)


@frozen(kw_only=True)
class Query:
    """A selection of resources: all filters must match, each with any of its values."""

    filters: Mapping[str, tuple[Value, ...]] = field(factory=dict)
    sort: tuple[tuple[str, bool], ...] = ()
    """Attributes to sort by, each with whether ascending."""
    limit: int | None = None
    marker: UUID | None = None
    backwards: bool = False
