"""The API as a WSGI application."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson

from netfw import request_id
from netfw.drivers.resource_plugin import ResourcePlugin
from netfw.errors import NetfwError
from netfw.model.text_validation import quote
from netfw.server.api import discovery, query_params
from netfw.server.api.access_log import REQUESTER, log_request
from netfw.server.api.auth_protocols import Identity, Policy
from netfw.server.api.controller import Controller
from netfw.server.api.error_responses import (
    ErrorResponse,
    no_such_path,
    to_response,
    unexpected,
    wrong_method,
)
from netfw.server.api.events import Events, Subscriber
from netfw.server.api.request import ApiRequest, ApiResponse
from netfw.server.api.request_body import RequestLimits, check_length
from netfw.server.api.resource_registry import ResourceRegistry
from netfw.server.api.routing import Route, Routes, check_method, path_of
from netfw.server.api.schema.resource_schema import ApiResource
from netfw.server.api.tagging import Tagging

log = logging.getLogger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], object]

_REASONS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Application:
    """Serves the API to any WSGI server."""

    def __init__(
        self,
        *,
        catalog: ResourceRegistry,
        plugins: Mapping[str, ResourcePlugin],
        policy: Policy,
        identity: Identity,
        bounds: RequestLimits,
        events: Events,
    ) -> None:
        self._catalog, self._identity, self._bounds = catalog, identity, bounds
        self._routes = Routes(catalog.resources)
        self._controller = Controller(catalog.resources, plugins, policy, events, bounds)
        self._tagging = Tagging(self._controller, plugins, policy, events)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        own_id = request_id.sanitize(environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or "")
        environ["netfw.request_id"] = own_id
        began = time.perf_counter()
        with request_id.bind(own_id):
            status, headers, data = self._respond(environ, own_id)
            log_request(environ, status, time.perf_counter() - began)
        headers += [("X-Openstack-Request-Id", own_id), ("Content-Length", str(len(data)))]
        if status == 204:
            headers.pop()
        start_response(_REASONS.get(status, str(status)), headers)
        return [data] if data else []

    def _respond(
        self, environ: dict[str, Any], request_id: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        met: list[ApiResource] = []
        try:
            parts = path_of(environ)
            answer = self._answer(environ, parts, met)
            data = b"" if answer.body is None else _dumped(answer.body)
            return answer.status, _headers(answer.headers, bool(data)), data
        except NetfwError as exc:
            fault = to_response(exc, met[0] if met else None, environ["REQUEST_METHOD"])
            if fault is None:
                log.exception("a request failed for no reason that its client could mend")
                fault = unexpected(request_id)
            elif fault.status == 503:
                log.warning("a request was not served: %s", exc)
        except BaseException:  # a driver that exits must not end the thread, or the server with it
            log.exception("a request met a fault of the server")
            fault = unexpected(request_id)
        return self._refused(fault)

    @staticmethod
    def _refused(fault: ErrorResponse) -> tuple[int, list[tuple[str, str]], bytes]:
        return fault.status, _headers(fault.headers, True), _dumped(fault.body())

    def _answer(
        self, environ: dict[str, Any], parts: tuple[str, ...], met: list[ApiResource]
    ) -> ApiResponse:
        method: str = environ["REQUEST_METHOD"]
        check_length(environ, self._bounds.body)
        if not parts or parts == (discovery.VERSION,):
            if method != "GET":
                raise wrong_method(method, frozenset({"GET"}))
            if not parts:
                return discovery.versions(environ)
            return discovery.resources(environ, self._catalog)
        requester = environ[REQUESTER] = self._identity(environ)
        if parts[0] != discovery.VERSION:
            raise no_such_path(quote("/" + "/".join(parts)))
        fixed = discovery.fixed(parts[1:], method, self._catalog)
        if fixed is not None:
            return fixed
        route = self._routes.find(parts[1:])
        met.append(route.resource)
        check_method(route, method)
        call = ApiRequest(
            method=method,
            route=route,
            requester=requester,
            parameters=query_params.parameters(environ.get("QUERY_STRING") or "", self._bounds),
            environ=environ,
            bounds=self._bounds,
        )
        return self._served_by(route)(call)

    def _served_by(self, route: Route) -> Callable[[ApiRequest], ApiResponse]:
        return self._tagging.answer if route.tags else self._controller.answer


def _headers(more: Mapping[str, str], filled: bool) -> list[tuple[str, str]]:
    kind = [("Content-Type", "application/json")] if filled else []
    return [*kind, *more.items()]


def _dumped(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body, default=dict)
    except TypeError:
        # Lone halves of characters, and numbers that are too long for it.
        return json.dumps(body, default=dict).encode("ascii")


def make_app(
    catalog: ResourceRegistry,
    plugins: Sequence[ResourcePlugin] | Mapping[str, ResourcePlugin],
    *,
    policy: Policy,
    identity: Identity,
    bounds: RequestLimits | None = None,
    subscribers: Sequence[Subscriber] = (),
) -> Application:
    """The application of a server.

    *plugins* are those that keep the resources of the catalog, or each by the resource's name.
    """
    if not isinstance(plugins, Mapping):
        plugins = {name: plugin for plugin in plugins for name in plugin.resource_names}
    return Application(
        catalog=catalog,
        plugins=plugins,
        policy=policy,
        identity=identity,
        bounds=bounds or RequestLimits(),
        events=Events(tuple(subscribers)),
    )
