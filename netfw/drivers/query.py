"""What the API asks of plugins, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.attribute import Value
from netfw.model.resource import Resource


@frozen(kw_only=True)
class Requester:
    """Whose request it is; authenticated, and let through by policy."""

    project_id: str
    user: str = ""
    roles: frozenset[str] = frozenset()
    admin: bool = False
    request_id: str = ""


@frozen(kw_only=True)
class Query:
    """Which resources; different filters must all hold, of one filter any value."""

    filters: Mapping[str, tuple[Value, ...]] = field(factory=dict)
    sort: tuple[tuple[str, bool], ...] = ()
    """Attributes, and whether ascending."""
    limit: int | None = None
    marker: UUID | None = None
    backwards: bool = False


@frozen
class Attributes:
    """Attributes by name, validated against the declarations."""

    values: Mapping[str, Value]


@frozen(kw_only=True)
class VendorResource:
    """A resource that the model does not know."""

    name: str
    id: UUID
    project_id: str = ""
    revision: int = 0
    attributes: Attributes


@frozen(kw_only=True)
class Shown:
    """A resource, with the attributes that extension drivers added to it."""

    resource: Resource | VendorResource
    extra: Attributes = field(factory=lambda: Attributes({}))
