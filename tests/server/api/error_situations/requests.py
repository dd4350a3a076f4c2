"""Refusals of the form of a request."""

from __future__ import annotations

from tests.server.api.environment import Reply
from tests.server.api.error_situations.cloud import NOWHERE, Cloud, situation


@situation("HTTPBadRequest", 400)
def body_without_its_key(cloud: Cloud) -> Reply:
    return cloud.alice.post("networks", {"net": {}})


@situation("HTTPBadRequest", 400)
def body_that_is_no_object(cloud: Cloud) -> Reply:
    return cloud.alice.post("networks", {"network": []})


@situation("HTTPBadRequest", 400)
def body_that_is_no_json(cloud: Cloud) -> Reply:
    return cloud.alice.raw("POST", "/v2.0/networks", b"{")


@situation("HTTPBadRequest", 400)
def unknown_attribute(cloud: Cloud) -> Reply:
    return cloud.create("network", nmae="web")


@situation("HTTPBadRequest", 400)
def read_only_attribute(cloud: Cloud) -> Reply:
    return cloud.change("networks", cloud.network(), id=NOWHERE)


@situation("HTTPBadRequest", 400)
def missing_attribute(cloud: Cloud) -> Reply:
    return cloud.create("port", name="web")


@situation("HTTPBadRequest", 400)
def unknown_attribute_in_a_bulk_request(cloud: Cloud) -> Reply:
    return cloud.alice.post("networks", {"networks": [{}, {"nmae": "web"}]})


@situation("HTTPBadRequest", 400)
def resource_for_another_project(cloud: Cloud) -> Reply:
    return cloud.alice.post("networks", {"network": {"project_id": "bob"}})


@situation("HTTPBadRequest", 400)
def unknown_filter(cloud: Cloud) -> Reply:
    return cloud.alice.get("networks", nmae="web")


@situation("InvalidInput", 400)
def filter_with_an_invalid_value(cloud: Cloud) -> Reply:
    return cloud.alice.get("networks", admin_state_up="maybe")


@situation("HTTPBadRequest", 400)
def unknown_sort_key(cloud: Cloud) -> Reply:
    return cloud.alice.get("networks", sort_key="nmae")


@situation("BadRequest", 400)
def limit_that_is_no_number(cloud: Cloud) -> Reply:
    return cloud.alice.get("networks", limit="all")


@situation("BadRequest", 400)
def revision_that_is_no_number(cloud: Cloud) -> Reply:
    path = f"networks/{cloud.network()}"
    return cloud.admin.put(path, {"network": {}}, HTTP_IF_MATCH="revision_number=last")


@situation("RevisionNumberConstraintFailed", 412)
def another_revision(cloud: Cloud) -> Reply:
    path = f"networks/{cloud.network()}"
    return cloud.admin.put(path, {"network": {}}, HTTP_IF_MATCH="revision_number=77")


@situation("PolicyNotAuthorized", 403)
def attribute_of_administrators(cloud: Cloud) -> Reply:
    return cloud.alice.post("networks", {"network": {"shared": True}})


@situation("TagNotFound", 404)
def absent_tag(cloud: Cloud) -> Reply:
    return cloud.admin.delete(f"networks/{cloud.network()}/tags/blue")


@situation("HTTPNotFound", 404)
def unknown_url(cloud: Cloud) -> Reply:
    return cloud.alice.get("unicorns")


@situation("HTTPNotFound", 404)
def unknown_extension(cloud: Cloud) -> Reply:
    return cloud.alice.get("extensions/unicorns")


@situation("HTTPMethodNotAllowed", 405)
def method_that_is_not_served(cloud: Cloud) -> Reply:
    return cloud.alice.raw("PATCH", "/v2.0/networks")


@situation("HTTPRequestEntityTooLarge", 413)
def body_that_is_too_large(cloud: Cloud) -> Reply:
    return cloud.alice.raw("POST", "/v2.0/networks", b" " * (8 * 2**20))


@situation("HTTPUnsupportedMediaType", 415)
def body_in_xml(cloud: Cloud) -> Reply:
    xml = {"CONTENT_TYPE": "application/xml"}
    return cloud.alice.raw("POST", "/v2.0/networks", b"<network/>", **xml)


@situation("Unauthorized", 401)
def request_without_identity(cloud: Cloud) -> Reply:
    return cloud.alice.as_("").get("networks")
