"""The metadata proxy as a WSGI application.

An error response has one short sentence; details are only in the log.  The HTTP server has refused
ambiguous headers already (`netfw.http.request_parser`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from attrs import field, frozen

from netfw import request_id
from netfw.agents.metadata.headers import Headers, request_headers, response_headers
from netfw.agents.metadata.instance_cache import InstanceCache
from netfw.agents.metadata.request_origin import parse_origin
from netfw.agents.metadata.upstream_connection import UpstreamRequest, UpstreamResponse
from netfw.agents.metadata.upstream_pool import UpstreamPool
from netfw.drivers.values.agent_requests import FindPorts
from netfw.http.http_error import HttpError, busy, render_text_error

LOG = logging.getLogger(__name__)

MAX_REQUEST_BODY = 1024 * 1024
"""Maximum number of bytes of a request's body."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Forwarded methods; TRACE would show a guest the headers that the agent adds."""
METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose body is forwarded.  A service may leave any other body unread, and take it for the
next request on the connection."""
PROBE = "X-Netfw-Probe"

Start = Callable[[str, list[tuple[str, str]]], Any]
_INTERNAL_ERROR = HttpError(
    500, "HTTPInternalServerError", "internal error of the agent; its log has the details"
)


@frozen
class ForwardingTarget:
    """The service that requests are forwarded to, and the shared secret; replaced as a whole."""

    upstream: UpstreamPool
    secret: str = field(repr=False)


class MetadataProxyApp:
    """Forwards requests, in any number of threads.

    One origin gets at most *share* threads at the same time, so that a guest cannot block all
    others.  A request with the *probe* token comes from the agent itself: *alive* is called in the
    worker thread.  Requests of users that are not in *peers* are refused: they could name any
    instance.
    """

    def __init__(
        self,
        directory: InstanceCache,
        policy: ForwardingTarget,
        *,
        share: int = 16,
        peers: frozenset[int] | None = None,
        probe: str = "",
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory, self.policy = directory, policy
        self._share, self._peers = share, peers
        self._probe, self._alive = probe, alive
        self._lock = threading.Lock()
        self._in_progress: Counter[FindPorts] = Counter()
        self._answers: Counter[str] = Counter()

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of answered requests, in all and by status."""
        with self._lock:
            return dict(self._answers)

    def __call__(self, environ: Mapping[str, Any], start: Start) -> Iterable[bytes]:
        headers = _headers(environ)
        if self._probe and headers.get(PROBE) == self._probe:
            self._alive()
            start("204 No Content", [])
            return ()
        began = time.monotonic()
        with request_id.bind(request_id.new()):
            status, given, body = self._answer(environ, headers)
            LOG.debug(
                "%s %s of %s: %d in %.3f s",
                environ["REQUEST_METHOD"],
                environ["REQUEST_URI"][:200],
                headers.get("X-Forwarded-For", "?")[:50],
                status,
                time.monotonic() - began,
            )
        with self._lock:
            self._answers["requests"] += 1
            self._answers[f"status_{status}"] += 1
        start(f"{status} {_phrase(status)}", list(given))
        return (body,) if body and environ["REQUEST_METHOD"] != "HEAD" else ()

    def _check_peer(self, environ: Mapping[str, Any]) -> None:
        """Refuse requests of users that no proxy runs as.

        :raises HttpError: the user at the other end of the unix socket is none of them.
        """
        if self._peers is None:
            return
        _, user, _ = environ["netfw.peer_credentials"]
        if user not in self._peers:
            raise HttpError(
                403,
                "HTTPForbidden",
                f"user {user} may not send requests to the metadata agent: metadata_proxy_user may",
            )

    def _answer(
        self, environ: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, Headers, bytes]:
        try:
            self._check_peer(environ)
            response = self._forward(environ, headers)
        except HttpError as error:
            return _error_response(error)
        except Exception:
            LOG.exception("request failed: internal error")
            return _error_response(_INTERNAL_ERROR)
        bodiless = response.status in (204, 304)
        length = () if bodiless else (("Content-Length", str(response.length)),)
        given = (*response_headers(response.headers), *length)
        return response.status, given, response.body

    def _forward(self, environ: Mapping[str, Any], headers: Mapping[str, str]) -> UpstreamResponse:
        request = parse_origin(headers)
        if environ["REQUEST_METHOD"] not in METHODS:
            allowed = {"Allow": ", ".join(sorted(METHODS))}
            raise HttpError(405, "HTTPMethodNotAllowed", "that method is not forwarded", allowed)
        body = _body(environ)
        if body and environ["REQUEST_METHOD"] not in METHODS_WITH_BODY:
            text = f"a {environ['REQUEST_METHOD']} request has no body: send it without one"
            raise HttpError(400, "HTTPBadRequest", text)
        if environ["netfw.is_abandoned"]():
            raise busy()  # the client gave up while the request was queued
        with self._limited(request):
            instance = self.directory.find(request)
            policy = self.policy
            forwarded = UpstreamRequest(
                method=environ["REQUEST_METHOD"],
                target=environ["REQUEST_URI"],
                headers=request_headers(headers, request.address, instance, policy.secret),
                body=body,
            )
            return policy.upstream.send(forwarded, instance.id)

    @contextmanager
    def _limited(self, request: FindPorts) -> Iterator[None]:
        """Count a request of an origin in progress.

        :raises HttpError: the origin has reached its limit.
        """
        with self._lock:
            if self._in_progress[request] >= self._share:
                raise busy()
            self._in_progress[request] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_progress[request] -= 1
                if not self._in_progress[request]:
                    del self._in_progress[request]


def _headers(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request, with names in title case."""
    headers = {
        name[5:].replace("_", "-").title(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        headers["Content-Type"] = environ["CONTENT_TYPE"]
    return headers


def _body(environ: Mapping[str, Any]) -> bytes:
    """Read the body.

    :raises HttpError: it is too long, or ends early.
    """
    declared = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = b"" if declared > MAX_REQUEST_BODY else environ["wsgi.input"].read()
    if max(declared, len(body)) > MAX_REQUEST_BODY:
        text = f"the body has more than {MAX_REQUEST_BODY} bytes"
        raise HttpError(413, "HTTPRequestEntityTooLarge", text)
    if len(body) < declared:
        raise HttpError(400, "HTTPBadRequest", "the body ends before its Content-Length")
    return body


def _error_response(error: HttpError) -> tuple[int, Headers, bytes]:
    words = render_text_error(error)
    headers = (
        *error.headers.items(),
        ("Content-Type", words.content_type),
        ("Content-Length", str(len(words.body))),
    )
    return error.status, headers, words.body


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
