"""What clients ask first: versions, resources and extensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netfw.drivers.api_extension import ExtensionInfo
from netfw.errors import NotFound
from netfw.model.text_validation import quote
from netfw.server.api.error_responses import wrong_method
from netfw.server.api.request import ApiResponse
from netfw.server.api.resource_registry import ResourceRegistry

VERSION = "v2.0"
_READ = frozenset({"GET"})


def base_url(environ: Mapping[str, Any]) -> str:
    """Where the API is, as the client knows it."""
    host = environ.get("HTTP_HOST") or environ.get("SERVER_NAME") or "localhost"
    scheme = environ.get("wsgi.url_scheme") or "http"
    return f"{scheme}://{host}{environ.get('SCRIPT_NAME', '')}"


def versions(environ: Mapping[str, Any]) -> ApiResponse:
    """The versions of the API."""
    link = {"rel": "self", "href": f"{base_url(environ)}/{VERSION}/"}
    version = {"id": VERSION, "status": "CURRENT", "links": [link]}
    return ApiResponse(status=200, body={"versions": [version]})


def resources(environ: Mapping[str, Any], catalog: ResourceRegistry) -> ApiResponse:
    """The resources that stand directly below the version."""
    found = [
        {
            "name": each.name,
            "collection": each.plural,
            "links": [{"rel": "self", "href": f"{base_url(environ)}/{VERSION}/{each.collection}"}],
        }
        for each in catalog.resources
        if each.parent is None
    ]
    return ApiResponse(status=200, body={"resources": found})


def _extension(info: ExtensionInfo) -> dict[str, Any]:
    return {
        "alias": info.alias,
        "name": info.name,
        "description": info.description,
        "updated": info.updated,
        "links": [],
    }


def fixed(parts: tuple[str, ...], method: str, catalog: ResourceRegistry) -> ApiResponse | None:
    """What is the same for everybody; ``None``: the path is about a resource."""
    first = parts[0].removesuffix(".json")
    if first == "service-providers" and len(parts) == 1:
        answer = ApiResponse(status=200, body={"service_providers": []})
    elif first == "extensions" and len(parts) == 1:
        answer = ApiResponse(
            status=200, body={"extensions": [_extension(each) for each in catalog.extensions]}
        )
    elif first == "extensions" and len(parts) == 2:
        answer = _one(parts[1].removesuffix(".json"), catalog)
    else:
        return None
    if method != "GET":
        raise wrong_method(method, _READ)
    return answer


def _one(alias: str, catalog: ResourceRegistry) -> ApiResponse:
    for info in catalog.extensions:
        if info.alias == alias:
            return ApiResponse(status=200, body={"extension": _extension(info)})
    raise NotFound(f"there is no extension {quote(alias)}")
