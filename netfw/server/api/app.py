"""WSGI application of the API."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any, Final

import orjson

from netfw import request_id, tracing
from netfw.drivers.server.api_event import ApiEventSubscriber
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import NetfwError
from netfw.http.http_error import HttpError
from netfw.model.values.text_validation import quote
from netfw.server.api import discovery
from netfw.server.api.access_log import REQUESTER, log_request
from netfw.server.api.auth_interfaces import Authenticator, Authorizer
from netfw.server.api.controller import Controller
from netfw.server.api.error_responses import no_such_path, to_response, unexpected
from netfw.server.api.events import PublishingPlugin
from netfw.server.api.live.own_api import OwnApi
from netfw.server.api.live.page import PATH as LIVE
from netfw.server.api.live.page import LivePage
from netfw.server.api.openapi import openapi_document
from netfw.server.api.query_params import parse_query_string
from netfw.server.api.request import PUBLIC_URL, ApiRequest, ApiResponse
from netfw.server.api.request_body import RequestLimits, check_length
from netfw.server.api.resource_registry import ResourceRegistry
from netfw.server.api.routing import Routes, check_method, path_of
from netfw.server.api.schema.resource_schema import ApiResource
from netfw.server.api.tagging import Tagging
from netfw.tracing import Span

LOG = logging.getLogger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], object]
HttpResponse = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body."""
_IS_STREAM: Final = "netfw.is_stream"
"""Key in the WSGI environment: the response has no end."""

_REASONS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Application:
    """The API as a WSGI application."""

    def __init__(
        self,
        *,
        registry: ResourceRegistry,
        plugins: Mapping[str, ResourcePlugin],
        policy: Authorizer,
        identity: Authenticator,
        limits: RequestLimits,
        public_url: str = "",
        live: LivePage | None = None,
    ) -> None:
        self._live = live
        self._public_url = public_url.rstrip("/")
        self._registry, self._identity, self._limits = registry, identity, limits
        self._openapi = functools.cache(
            lambda: discovery.EncodedDocument(_encode(openapi_document(registry)))
        )
        self._routes = Routes(registry.resources)
        self._controller = Controller(registry.resources, plugins, policy, limits)
        self._tagging = Tagging(self._controller, plugins, policy)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        own_id = request_id.sanitize(environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or "")
        environ["netfw.request_id"] = own_id
        environ[PUBLIC_URL] = self._public_url
        started = time.perf_counter()
        with request_id.bind(own_id), _api_span(environ) as span:
            status, headers, data = self._respond(environ, own_id)
            span.set("http.response.status_code", status)
            log_request(environ, status, time.perf_counter() - started)
        headers += [("X-Openstack-Request-Id", own_id), ("Content-Length", str(len(data)))]
        if status in (204, 304) or environ.get(_IS_STREAM):
            headers.pop()
        start_response(_REASONS.get(status, str(status)), headers)
        return [data] if data else []

    def admit(self, environ: dict[str, Any]) -> None:
        """Authenticate a request before its body is received.

        :raises HttpError: the request is not authenticated.
        """
        own_id = request_id.sanitize(environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or "")
        environ["netfw.request_id"] = own_id
        with request_id.bind(own_id):
            try:
                self._identity(environ)
            except NetfwError as exc:
                error = to_response(exc) or unexpected(own_id)
                log_request(environ, error.status, 0.0)
                raise HttpError(error.status, error.word, error.message, error.headers) from exc

    def _respond(self, environ: dict[str, Any], request_id: str) -> HttpResponse:
        resource: ApiResource | None = None
        try:
            parts = path_of(environ)
            check_length(environ, self._limits.body)
            response = discovery.describe_api(parts, environ, self._registry, self._openapi)
            if response is None and parts[0] == LIVE and self._live is not None:
                response = self._live.describe(parts[1:], environ)
            if response is None:
                requester = environ[REQUESTER] = self._identity(environ)
                if parts[0] != discovery.VERSION:
                    return self._respond_live(parts, environ)
                response = discovery.describe_extensions(parts[1:], environ, self._registry)
            if response is None:
                route = self._routes.find(parts[1:])
                resource = route.resource
                check_method(route, environ["REQUEST_METHOD"])
                query = environ.get("QUERY_STRING")
                request = ApiRequest(
                    method=environ["REQUEST_METHOD"],
                    route=route,
                    requester=requester,
                    parameters=parse_query_string(query, self._limits) if query else (),
                    environ=environ,
                    limits=self._limits,
                )
                response = (self._tagging if route.tags else self._controller).handle(request)
            return _rendered(response)
        except NetfwError as exc:
            error = to_response(exc, resource)
            if error is None:
                LOG.exception("request failed: internal error")
                error = unexpected(request_id)
            elif error.status == 503:
                LOG.warning("request failed: service unavailable: %s", exc)
        except BaseException:  # a driver that exits must not end the thread, or the server with it
            LOG.exception("request failed: internal error")
            error = unexpected(request_id)
        return error.status, _headers(error.headers, True), _encode(error.body())

    def _respond_live(self, parts: tuple[str, ...], environ: dict[str, Any]) -> HttpResponse:
        """Respond to an authenticated request outside of the API: what the live page reads.

        :raises NetfwError: there is no such thing.
        """
        if self._live is None or parts[0] != LIVE:
            raise no_such_path(quote("/" + "/".join(parts)))
        api = OwnApi(
            routes=self._routes,
            controller=self._controller,
            limits=self._limits,
            requester=environ[REQUESTER],
            environ=environ,
        )
        response = self._live.respond(parts[1:], environ, api)
        if response.successor is not None:
            environ[_IS_STREAM] = True
            environ["netfw.hand_over"](response.successor)
        return _rendered(response)


def _rendered(response: ApiResponse) -> HttpResponse:
    data = _encode(response.body)
    return response.status, _headers(response.headers, bool(data)), data


def _api_span(environ: dict[str, Any]) -> AbstractContextManager[Span]:
    """Record a span for a request, in the trace of its client if that sent one."""
    if not tracing.is_on():
        return tracing.NO_SPAN
    method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
    name = f"{method} {'/'.join(path.split('/')[:3])}"
    parents = tracing.valid_contexts([environ.get("HTTP_TRACEPARENT")])
    return tracing.span(name, parents, **{"http.request.method": method, "url.path": path})


def _headers(more: Mapping[str, str], has_body: bool) -> list[tuple[str, str]]:
    is_json = has_body and "Content-Type" not in more
    content_type = [("Content-Type", "application/json")] if is_json else []
    return [*content_type, *more.items()]


def _encode(body: Mapping[str, Any] | bytes | None) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    try:
        return orjson.dumps(body, default=dict)
    except TypeError:
        # Lone surrogates, and integers of more than 64 bits.
        return json.dumps(body, default=dict).encode("ascii")


def make_app(
    registry: ResourceRegistry,
    plugins: Sequence[ResourcePlugin] | Mapping[str, ResourcePlugin],
    *,
    policy: Authorizer,
    identity: Authenticator,
    limits: RequestLimits | None = None,
    subscribers: Sequence[ApiEventSubscriber] = (),
    public_url: str = "",
    live: LivePage | None = None,
) -> Application:
    """Build the application of a server.

    *plugins* store the resources of the registry; a mapping has each by the resource's name.
    *subscribers* get the API events.  *public_url* is that of links; empty: as clients address it.
    *live* serves the live page; ``None``: there is none.
    """
    if not isinstance(plugins, Mapping):
        plugins = {name: plugin for plugin in plugins for name in plugin.resource_names}
    if subscribers:
        plugins = {
            resource.name: PublishingPlugin(plugins[resource.name], resource, subscribers)
            for resource in registry.resources
        }
    return Application(
        registry=registry,
        plugins=plugins,
        policy=policy,
        identity=identity,
        limits=limits or RequestLimits(),
        public_url=public_url,
        live=live,
    )
