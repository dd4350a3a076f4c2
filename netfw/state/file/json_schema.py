"""JSON Schema of topology files, for editors and for programs that write them.  Pure.

It follows from the codecs.  It is more lenient than the reader, which also checks what one entry
requires of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from netfw.model.resource import Kind
from netfw.model.wire.resource_codecs import CODECS
from netfw.state.file.schema import (
    AGENT_GATEWAYS,
    ASSIGNMENT_REFERENCES,
    ASSIGNMENTS,
    HOSTS,
    MAPPINGS,
    PROJECT,
    REFERENCES,
    SECTIONS,
    SHORT,
    STATED_ASSIGNMENT,
    STATED_HOST,
    Reference,
)

Schema = dict[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAME: Final[Schema] = {"type": ["string", "null"], "description": "name or id"}
_DEFAULTED: Final = ("required", "format")
"""What does not hold in a file: attributes have defaults, and names stand for ids."""


def topology_schema() -> Schema:
    """Return the schema of a topology file."""
    sections = {name: _list_of(_entry(kind)) for name, kind in SECTIONS.items()}
    groups = sections["security_groups"]["items"]["properties"]
    groups["rules"] = _list_of(_entry(Kind.SECURITY_GROUP_RULE))
    host = _object(STATED_HOST.schemas, ())
    host["properties"][AGENT_GATEWAYS] = {
        "type": "object",
        "maxProperties": MAPPINGS,
        "additionalProperties": {"type": "string", "description": "address"},
    }
    return {
        "$schema": DIALECT,
        "title": "Topology file of netfw",
        **_closed(
            {
                **sections,
                HOSTS: {"type": "object", "additionalProperties": host},
                ASSIGNMENTS: _list_of(_object(STATED_ASSIGNMENT.schemas, ASSIGNMENT_REFERENCES)),
                PROJECT: {"type": "string"},
            }
        ),
    }


def _entry(kind: Kind) -> Schema:
    found = _object(CODECS[kind].schemas, REFERENCES.get(kind, ()))
    properties = found["properties"]
    properties["id"] = _NAME
    for short, name in SHORT.get(kind, {}).items():
        properties[short] = properties[name]
    if kind is Kind.PORT:
        addresses = properties["fixed_ips"]
        addresses["items"] = {"anyOf": [{"type": "string"}, addresses["items"]]}
    return found


def _object(schemas: Mapping[str, Any], references: Iterable[Reference]) -> Schema:
    found = _closed({name: _lenient(each) for name, each in schemas.items()})
    for reference in references:
        _allow_name(found, reference, reference.path)
    return found


def _closed(properties: Mapping[str, Any]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _lenient(schema: Any) -> Any:
    """Return a deep copy without what files need not follow."""
    if isinstance(schema, Mapping):
        return {key: _lenient(each) for key, each in schema.items() if key not in _DEFAULTED}
    return [_lenient(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _allow_name(schema: Schema, reference: Reference, path: tuple[str, ...]) -> None:
    """Allow a name where *path* leads to, and the short name beside it."""
    for choice in schema.get("anyOf", ()):
        _allow_name(choice, reference, path)
    step, rest = path[0], path[1:]
    if step == "*":
        if not rest and "items" in schema:
            schema["items"] = _NAME
        elif "items" in schema:
            _allow_name(schema["items"], reference, rest)
        return
    properties = schema.get("properties", {})
    if rest:
        _allow_name(properties.get(step, {}), reference, rest)
    elif step in properties or len(reference.path) == 1:  # some are of files only
        properties[step] = _NAME
        if reference.short is not None:
            properties[reference.short] = _NAME
