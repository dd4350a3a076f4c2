"""Attributes of API resources, as data."""

from __future__ import annotations

import enum
from collections.abc import Callable

from attrs import frozen

from netfw.model.json_document import JsonDocument
from netfw.model.wire import Json

Value = str | int | bool | None | JsonDocument | tuple[str, ...] | tuple[JsonDocument, ...]
"""What an attribute can hold: a scalar, a list of texts, an object or a list of objects."""


class AttributeType(enum.StrEnum):
    """What the API accepts for an attribute."""

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
    """What a create request without it gets."""
    settable: bool = True
    """May be given when the resource is made."""
    mutable: bool = True
    """May be changed afterwards."""
    filterable: bool = True
    """Lists can be filtered, and sorted where it is a scalar, by it.

    Of what an extension driver adds only fields of the model can be looked for, and of those the
    ones that have a column; for what it keeps beside them this says nothing.
    """
    admin_only: bool = False
    """Only administrators give it, change it, see it and look for it.

    An API extension may say otherwise by a rule of its own: ``get_<resource>:<attribute>``.
    """
    network_owner_only: bool = False
    """Of a port or a subnet: only who owns its network may give it."""
    check: Callable[[Value], None] | None = None
    """Raises ``ValueError`` with a sentence for a value that has the type and still cannot be."""

    def __attrs_post_init__(self) -> None:
        if self.required and not self.settable:
            raise ValueError(f"{self.name}: required, and yet nobody may give it")


def plain(value: Value) -> Json:
    """*value* as the API has it."""
    if isinstance(value, JsonDocument):
        return value.content()
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value
