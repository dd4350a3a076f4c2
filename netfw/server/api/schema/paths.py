"""Paths of resources, as templates with the names of their parameters."""

from __future__ import annotations

from collections.abc import Mapping

from netfw.server.api.schema.resource_schema import ApiResource

ROOT = "/v2.0"


def collection_path(resource: ApiResource, by_name: Mapping[str, ApiResource]) -> str:
    """Return the path of the collection: ``/v2.0/ports/{port_id}/bindings``."""
    if resource.parent is None:
        return f"{ROOT}/{resource.path}"
    above = collection_path(by_name[resource.parent], by_name)
    return f"{above}/{{{resource.parent_attribute}}}/{resource.path}"
