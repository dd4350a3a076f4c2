"""Comparison of responses with the OpenAPI document of their server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.server.api.environment import Client, Reply


def schema_problems(client: Client, operation: str, reply: Reply) -> list[str]:
    """Return in what *reply* differs from the document; *operation*: ``GET /agents/{id}``."""
    assert reply.status < 300, reply.data
    document = client.get("openapi.json").json
    method, _, path = operation.partition(" ")
    responses: Mapping[str, Any] = document["paths"][f"/v2.0{path}"][method.lower()]["responses"]
    schema = responses[str(reply.status)]["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    validator = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [_describe(each) for each in validator.iter_errors(reply.json)]


def _describe(error: Any) -> str:
    return "; ".join([error.message, *(each.message for each in error.context)])
