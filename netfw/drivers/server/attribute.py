"""Attributes of API resources, as data."""

from __future__ import annotations

import enum
from collections.abc import Callable

from attrs import frozen

from netfw.model.values.json_document import JsonDocument
from netfw.model.wire import Json

Value = str | int | bool | None | JsonDocument | tuple[str, ...] | tuple[JsonDocument, ...]
"""Value of an attribute: a scalar, a list of texts, an object or a list of objects."""


class AttributeType(enum.StrEnum):
    """The type of an attribute in the API."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    UUID = "uuid"
    ADDRESS = "address"
    PREFIX = "prefix"
    MAC = "mac"
    TEXTS = "list of texts"
    OBJECT = "object"
    OBJECTS = "list of objects"


@frozen(kw_only=True)
class Attribute:
    """One attribute of a resource."""

    name: str
    type: AttributeType
    nullable: bool = False
    required: bool = False
    """A create request without it is refused."""
    default: Value = None
    """Value in a create request without it."""
    settable: bool = True
    """May be set when the resource is created."""
    mutable: bool = True
    """May be changed afterwards."""
    filterable: bool = True
    """Lists can be filtered by it, and sorted where it is a scalar.

    Of the attributes of an extension driver, only fields of the model that have a column can be
    filtered; this flag does not apply to the others.
    """
    admin_only: bool = False
    """Only administrators may set, change, see and filter by it.

    An API extension may override this by a rule of its own: ``get_<resource>:<attribute>``.
    """
    network_owner_only: bool = False
    """Of a port or a subnet: only the owner of its network may set it."""
    check: Callable[[Value], None] | None = None
    """Raises ``ValueError`` with a sentence for an invalid value of the right type."""

    def __attrs_post_init__(self) -> None:
        if self.required and not self.settable:
            raise ValueError(f"{self.name}: required, but not settable")


def plain(value: Value) -> Json:
    """Return *value* in the form of the API."""
    if isinstance(value, JsonDocument):
        return value.content()
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value
