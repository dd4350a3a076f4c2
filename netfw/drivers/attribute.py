"""Attributes of API resources, as data."""

from __future__ import annotations

import enum
from collections.abc import Callable

from attrs import frozen

from netfw.model.document import Document

Value = str | int | bool | None | Document | tuple[str, ...] | tuple[Document, ...]
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
    admin_only: bool = False
    network_owner_only: bool = False
    """Of a port or a subnet: only who owns its network may give it."""
    check: Callable[[Value], None] | None = None
    """Raises ``ValueError`` with a sentence for a value that has the type and still can not be."""

    def __attrs_post_init__(self) -> None:
        if self.required and not self.settable:
            raise ValueError(f"{self.name}: required, and yet nobody may give it")
