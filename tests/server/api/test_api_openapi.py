"""The OpenAPI document as a value; tests/system/server/test_openapi.py holds a server to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from netfw.model.qos import DSCP_MARKS
from netfw.model.wire.codec import Schema
from netfw.server.api.openapi import openapi_document
from netfw.server.api.resource_registry import build
from netfw.server.api.resources import RESOURCES
from netfw.server.api.schema.resource_schema import ApiResource
from tests.server.api.environment import Client

REGISTRY = build([*(each.name for each in RESOURCES), "quota"])


@pytest.mark.spec("API-20")
def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(openapi_document(REGISTRY)).validate()


@pytest.mark.spec("API-20")
@pytest.mark.parametrize("resource", REGISTRY.resources, ids=lambda each: each.name)
def test_every_attribute_says_what_its_values_are(resource: ApiResource) -> None:
    actions = [each for action in resource.actions for each in action.attributes]
    vague = [
        path
        for each in (*resource.attributes, *actions)
        for path in find_vague(each.codec.schema, each.name)
    ]
    assert vague == []


def find_vague(schema: Schema, path: str) -> Iterator[str]:
    """Yield the paths of values that may be anything."""
    if not schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from find_vague(inner, f"{path}.{name}")
    if "items" in schema:
        yield from find_vague(schema["items"], f"{path}[]")
    for inner in schema.get("anyOf", ()):
        yield from find_vague(inner, path)


@pytest.mark.spec("API-20")
def test_the_document_has_the_marks_that_a_rule_may_have() -> None:
    schemas = openapi_document(REGISTRY)["components"]["schemas"]
    mark = schemas["DscpMarkingRuleCreate"]["properties"]["dscp_mark"]
    assert mark.get("enum") == sorted(DSCP_MARKS)


@pytest.mark.spec("API-20")
def test_a_dry_run_is_a_field_of_the_member() -> None:
    paths = openapi_document(REGISTRY)["paths"]
    show = paths["/v2.0/auto-allocated-topology/{project_id}"]["get"]
    (fields,) = show["parameters"]
    assert fields["schema"]["items"]["enum"] == ["id", "project_id", "tenant_id", "dry-run"]
    assert "anyOf" in show["responses"]["200"]["content"]["application/json"]["schema"]


@pytest.mark.spec("API-20")
def test_the_document_is_served_to_everybody_with_the_resources_of_this_server(
    unmoved: Client,
) -> None:
    reply = unmoved.as_("").get("openapi.json")
    assert reply.status == 200
    paths = reply.json["paths"]
    assert {"/v2.0/networks", "/v2.0/networks/{id}", "/v2.0/networks/{id}/tags"} <= paths.keys()
    assert "/v2.0/routers" not in paths, "no plugin keeps routers"
    assert unmoved.as_("").post("openapi.json", {}).status == 405
    assert unmoved.as_("").get("openapi.json").data is reply.data, "encoded once"


@pytest.mark.spec("API-20")
def test_a_client_that_has_the_document_does_not_get_it_again(unmoved: Client) -> None:
    nobody = unmoved.as_("")
    etag = nobody.get("openapi.json").headers["ETag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        reply = nobody.raw("GET", "/v2.0/openapi.json", HTTP_IF_NONE_MATCH=known)
        assert (reply.status, reply.data, reply.headers["ETag"]) == (304, b"", etag)
        assert not {"Content-Length", "Content-Type"} & reply.headers.keys()
    fresh = nobody.raw("GET", "/v2.0/openapi.json", HTTP_IF_NONE_MATCH='"other"')
    assert (fresh.status, fresh.headers["ETag"]) == (200, etag)
