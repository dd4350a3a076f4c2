"""What the API asks of plugins, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import evolve, field, frozen

from netfw.drivers.attribute import Value
from netfw.model.wire import Json

Body = Mapping[str, Json]
"""Attributes by name, in the form of the API: a resource, or what a request says of one."""


@frozen(kw_only=True)
class RequestContext:
    """Whose request it is; authenticated, and let through by policy."""

    project_id: str
    user: str = ""
    roles: frozenset[str] = frozenset()
    admin: bool = False
    """Sees and owns everything."""
    request_id: str = ""

    @property
    def sees(self) -> str | None:
        """The project through whose eyes it looks; ``None`` sees all."""
        return None if self.admin else self.project_id

    def elevated(self) -> RequestContext:
        """The same, when the server itself acts on its behalf."""
        return evolve(self, admin=True)


@frozen(kw_only=True)
class Query:
    """Which resources; different filters must all hold, of one filter any value."""

    filters: Mapping[str, tuple[Value, ...]] = field(factory=dict)
    sort: tuple[tuple[str, bool], ...] = ()
    """Attributes, and whether ascending."""
    limit: int | None = None
    marker: UUID | None = None
    backwards: bool = False
