"""JSON Schema of the status file of an agent, for monitors.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_type_hints

import attrs

from netfw.agents.common.agent import Counts
from netfw.agents.common.status import AgentStatus

Schema = dict[str, Any]
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_NUMBERS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "integer"}}
_TYPES: Final[Mapping[Any, Schema]] = {
    bool: {"type": "boolean"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Mapping[str, str]: _TEXTS,
    Mapping[str, int]: _NUMBERS,
    Counts: {
        "type": "object",
        "properties": {each.name: {"type": "integer"} for each in attrs.fields(Counts)},
        "required": [each.name for each in attrs.fields(Counts)],
    },
}
_OF_THE_FILE: Final[Mapping[str, Schema]] = {
    "errors_since": {**_TEXTS, "description": "when each error was first written"},
    "pid": {"type": "integer"},
    "written_at": {"type": "string", "format": "date-time"},
}


def status_schema() -> Schema:
    """Return the schema of a status file; releases add properties, and remove none unannounced."""
    hints = get_type_hints(AgentStatus)
    fields = {each.name: _TYPES[hints[each.name]] for each in attrs.fields(AgentStatus)}
    properties = {**fields, **_OF_THE_FILE}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Status file of an agent of netfw",
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
    }
