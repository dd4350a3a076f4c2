"""Discovery documents: API versions, resources and extensions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.server.api_extension import ExtensionInfo
from netfw.errors import NotFound
from netfw.model.values.text_validation import quote
from netfw.server.api.error_responses import wrong_method
from netfw.server.api.request import ApiResponse, base_url
from netfw.server.api.resource_registry import ResourceRegistry
from netfw.server.api.schema.resource_schema import Verb

VERSION = "v2.0"
OPENAPI = "openapi.json"


@frozen
class EncodedDocument:
    """A document that does not change while the server runs, and its entity tag."""

    data: bytes
    etag: str = field(init=False)

    @etag.default
    def _hash(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'

    def response(self, environ: Mapping[str, Any]) -> ApiResponse:
        """Return the document, or 304 if ``If-None-Match`` names it."""
        known = environ.get("HTTP_IF_NONE_MATCH", "").split(",")
        if {"*", self.etag} & {each.strip().removeprefix("W/") for each in known}:
            return ApiResponse(status=304, headers={"ETag": self.etag})
        return ApiResponse(status=200, body=self.data, headers={"ETag": self.etag})


def describe_api(
    parts: tuple[str, ...],
    environ: Mapping[str, Any],
    registry: ResourceRegistry,
    openapi: Callable[[], EncodedDocument],
) -> ApiResponse | None:
    """Return the versions at ``/``, the resources at ``/v2.0/``, and ``None`` for other paths.

    These documents need no identity, nor does *openapi* at ``/v2.0/openapi.json``.

    :raises HttpError: the method is not ``GET``.
    """
    if parts not in ((), (VERSION,), (VERSION, OPENAPI)):
        return None
    _require_get(environ)
    if parts == (VERSION, OPENAPI):
        return openapi().response(environ)
    if not parts:
        link = {"rel": "self", "href": f"{base_url(environ)}/{VERSION}/"}
        version = {"id": VERSION, "status": "CURRENT", "links": [link]}
        return ApiResponse(status=200, body={"versions": [version]})
    url = f"{base_url(environ)}/{VERSION}"
    resources = [
        {
            "name": resource.singular,
            "collection": resource.plural,
            "links": [{"rel": "self", "href": f"{url}/{resource.path}"}],
        }
        for resource in registry.resources
        if resource.parent is None and resource.listed and Verb.SHOW in resource.verbs
    ]
    return ApiResponse(status=200, body={"resources": resources})


def describe_extensions(
    parts: tuple[str, ...], environ: Mapping[str, Any], registry: ResourceRegistry
) -> ApiResponse | None:
    """Return the document of the extensions, or ``None`` for other paths.

    :raises HttpError: the method is not ``GET``.
    :raises NotFound: the extension does not exist.
    """
    first = parts[0].removesuffix(".json")
    if first == "extensions" and len(parts) == 1:
        body: dict[str, Any] = {"extensions": [_extension(info) for info in registry.extensions]}
    elif first == "extensions" and len(parts) == 2:
        alias = parts[1].removesuffix(".json")
        info = next((info for info in registry.extensions if info.alias == alias), None)
        if info is None:
            raise NotFound(f"there is no extension {quote(alias)}")
        body = {"extension": _extension(info)}
    else:
        return None
    _require_get(environ)
    return ApiResponse(status=200, body=body)


def _require_get(environ: Mapping[str, Any]) -> None:
    method: str = environ["REQUEST_METHOD"]
    if method != "GET":
        raise wrong_method(method, frozenset({"GET"}))


def _extension(info: ExtensionInfo) -> dict[str, Any]:
    return {
        "alias": info.alias,
        "name": info.name,
        "description": info.description,
        "updated": info.updated,
        "links": [],
    }
