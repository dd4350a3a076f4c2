"""JSON Schemas of the bodies of one resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netfw.model.wire.codec import ABSENT, Schema, object_schema
from netfw.server.api.schema.resource_schema import ApiAction, ApiAttribute, ApiResource, Verb

LINKS: Schema = {
    "type": "array",
    "items": object_schema(
        {
            "rel": {"type": "string", "enum": ["next", "previous"]},
            "href": {"type": "string", "format": "uri"},
        },
        ("rel", "href"),
    ),
}


def schema_name(resource: ApiResource) -> str:
    """Return the name of the schema of *resource*: ``SecurityGroupRule``."""
    return "".join(part.capitalize() for part in resource.name.split("_"))


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def resource_schemas(resource: ApiResource, shown_as: ApiResource) -> Mapping[str, Schema]:
    """Return the schemas of *resource* by name: as it is shown, created and updated."""
    name = schema_name(resource)
    schemas = {name: _shown(resource, shown_as)}
    if Verb.CREATE in resource.verbs:
        schemas[f"{name}Create"] = _given(each for each in resource.attributes if each.create)
    if Verb.UPDATE in resource.verbs:
        changed = [each for each in resource.attributes if each.update]
        schemas[f"{name}Update"] = object_schema({each.name: _described(each) for each in changed})
    return schemas


def action_schema(action: ApiAction) -> Schema:
    """Return the schema of the body of *action*."""
    schema = _given(action.attributes)
    if action.exclusive:
        schema = {**schema, "oneOf": [{"required": [name]} for name in action.exclusive]}
    return schema if action.envelope is None else envelope({action.envelope: schema})


def envelope(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """Return the schema of an object with *properties*, which has all of them but *optional*."""
    return object_schema(properties, properties.keys() - set(optional))


def _shown(resource: ApiResource, shown_as: ApiResource) -> Schema:
    """Return the schema of a response; policy may hide any attribute, so none is required."""
    more = () if shown_as is resource else resource.attributes
    return object_schema(
        {each.name: _described(each) for each in (*shown_as.attributes, *more) if each.shown}
    )


def _given(attributes: Iterable[ApiAttribute]) -> Schema:
    found = tuple(attributes)
    return object_schema(
        {each.name: _described(each, with_default=True) for each in found},
        (each.name for each in found if each.required),
    )


def _described(attribute: ApiAttribute, *, with_default: bool = False) -> Schema:
    schema: dict[str, Any] = dict(attribute.codec.schema)
    if attribute.note:
        schema["description"] = attribute.note
    if with_default and attribute.default is not ABSENT:
        schema["default"] = attribute.default
    return schema
