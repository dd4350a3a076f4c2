"""The OpenAPI 3.1 document: paths, operations and components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from netfw.model.wire.codec import Schema, object_schema
from netfw.model.wire.scalars import TAG
from netfw.server.api.openapi.operations import ResourceOperations
from netfw.server.api.openapi.schemas import envelope, resource_schemas, schema_name
from netfw.server.api.resource_registry import ResourceRegistry
from netfw.server.api.schema.paths import collection_path
from netfw.server.api.schema.resource_schema import ApiResource

Document = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_ERROR: Schema = envelope(
    {
        "NeutronError": envelope(
            {
                "type": {
                    "type": "string",
                    "description": "Name of the error; see the table of types.",
                },
                "message": {"type": "string", "description": "What is wrong, and what to do."},
                "detail": _TEXT,
            }
        )
    }
)
_EXTENSION: Schema = envelope(
    dict.fromkeys(("alias", "name", "description", "updated"), _TEXT)
    | {"links": {"type": "array", "maxItems": 0}}
)


def openapi_document(registry: ResourceRegistry) -> Document:
    """Return the document of a server with the resources of *registry*."""
    by_name = {each.name: each for each in registry.resources}
    schemas: dict[str, Any] = {"Error": _ERROR, "Extension": _EXTENSION}
    paths: Document = dict(_discovery())
    for resource in registry.resources:
        shown_as = by_name[resource.shows_as or resource.name]
        schemas |= resource_schemas(resource, shown_as)
        paths |= _paths(resource, by_name)
    return {
        "openapi": "3.1.0",
        "info": {"title": "netfw: OpenStack Networking API v2.0", "version": version("netfw")},
        "paths": paths,
        "tags": [{"name": each.name} for each in registry.resources],
        "security": [{"token": []}],
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": {"description": "The request is refused, or failed.", **_json("Error")}
            },
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}
            },
        },
    }


def _paths(resource: ApiResource, by_name: Mapping[str, ApiResource]) -> Document:
    base = collection_path(resource, by_name)
    member = f"{base}/{{{resource.identity}}}"
    operations = ResourceOperations(resource, schema_name(resource))
    above = (
        []
        if resource.parent is None
        else [_path_parameter(resource.parent_attribute, _identity(by_name[resource.parent]))]
    )
    own = [*above, _path_parameter(resource.identity, _identity(resource))]
    found: Document = {}
    for path, parameters, item in (
        (base, above, operations.collection()),
        (member, own, operations.member()),
        *((f"{member}/{each.name}", own, operations.action(each)) for each in resource.actions),
    ):
        if item:
            found[path] = _with_parameters(item, parameters)
    if resource.tags:
        found[f"{member}/tags"] = _with_parameters(operations.tags(), own)
        found[f"{member}/tags/{{tag}}"] = _with_parameters(
            operations.tag(), [*own, _path_parameter("tag", TAG.schema)]
        )
    return found


def _with_parameters(item: Document, parameters: list[Document]) -> Document:
    return {"parameters": parameters, **item} if parameters else item


def _identity(resource: ApiResource) -> Schema:
    """Return the schema of the identity in the URL of a member."""
    found = resource.attribute(resource.identity)
    return _NAME if found is None else {**found.codec.schema}


def _path_parameter(name: str, schema: Schema) -> Document:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _discovery() -> Iterator[tuple[str, Document]]:
    many: Schema = {"type": "array", "items": {"type": "object"}}
    extension: Schema = {"$ref": "#/components/schemas/Extension"}
    yield "/", _get("List the versions.", object_schema({"versions": many}), public=True)
    yield "/v2.0/", _get("List the resources.", object_schema({"resources": many}), public=True)
    document = {"type": "object"}
    own = _get("Return this document.", document, public=True)
    own["get"]["responses"]["304"] = {"description": "If-None-Match has its entity tag."}
    yield "/v2.0/openapi.json", own
    extensions = envelope({"extensions": {"type": "array", "items": extension}})
    yield "/v2.0/extensions", _get("List the extensions.", extensions)
    one = _get("Show an extension.", envelope({"extension": extension}))
    yield "/v2.0/extensions/{alias}", _with_parameters(one, [_path_parameter("alias", _NAME)])


def _get(summary: str, schema: Schema, *, public: bool = False) -> Document:
    response = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    return {
        "get": {
            "summary": summary,
            "responses": {"200": response, "default": {"$ref": "#/components/responses/Error"}},
            **({"security": []} if public else {}),
        }
    }


def _json(name: str) -> Document:
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
