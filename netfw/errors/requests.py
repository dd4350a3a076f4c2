"""Refusals of the form of a request: its body, its attributes, its query and its action."""

from __future__ import annotations

from netfw.errors import InvalidInput


class HTTPBadRequest(InvalidInput):
    """The body has another shape, or an attribute, filter or sort key is unknown or read-only."""


class BadRequest(InvalidInput):
    """The action cannot be applied to the resource as it is."""
