"""Relay: the agent as a WSGI application.

What is wrong is said in one short sentence; why, only in the log.  Headers come from a server that
has refused what could be read in two ways (`netfw.http.request_parser`).
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
from netfw.drivers.agent_requests import FindPorts
from netfw.http.http_error import HttpError, busy, plain

LOG = logging.getLogger(__name__)

MOST_BODY = 1024 * 1024
"""Bytes of a request's body."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""What is passed on; TRACE would show a guest what the service is told of it."""
PROBE = "X-Netfw-Probe"

Start = Callable[[str, list[tuple[str, str]]], Any]
_OURS = HttpError(
    500, "HTTPInternalServerError", "the agent made a mistake; its log has the details"
)


@frozen
class Policy:
    """Whom requests are passed on to, and with whose signature; replaced as a whole."""

    upstream: UpstreamPool
    secret: str = field(repr=False)


class MetadataProxyApp:
    """Passes requests on, in any number of threads.

    Who asks gets *share* threads at most at the same time, so that one guest cannot keep all
    others waiting.  A request with the *probe* word comes from the agent itself: *alive* is called,
    in the thread that would have passed it on.
    """

    def __init__(
        self,
        directory: InstanceCache,
        policy: Policy,
        *,
        share: int = 16,
        probe: str = "",
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory, self.policy = directory, policy
        self._share = share
        self._probe, self._alive = probe, alive
        self._lock = threading.Lock()
        self._under_way: Counter[FindPorts] = Counter()
        self._answers: Counter[str] = Counter()

    def counts(self) -> Mapping[str, int]:
        """How many requests were answered, and by which status."""
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

    def _answer(
        self, environ: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, Headers, bytes]:
        try:
            answered = self._relayed(environ, headers)
        except HttpError as refusal:
            return _refused(refusal)
        except Exception:
            LOG.exception("a defect of the agent itself")
            return _refused(_OURS)
        bodiless = answered.status in (204, 304)
        length = () if bodiless else (("Content-Length", str(answered.length)),)
        given = (*response_headers(answered.headers), *length)
        return answered.status, given, answered.body

    def _relayed(self, environ: Mapping[str, Any], headers: Mapping[str, str]) -> UpstreamResponse:
        request = parse_origin(headers)
        if environ["REQUEST_METHOD"] not in METHODS:
            allowed = {"Allow": ", ".join(sorted(METHODS))}
            raise HttpError(405, "HTTPMethodNotAllowed", "that method is not passed on", allowed)
        body = _body(environ)
        if environ["netfw.is_abandoned"]():
            raise busy()  # after so long in the queue that nobody waits for it any more
        with self._taking_part(request):
            instance = self.directory.find(request)
            policy = self.policy
            asking = UpstreamRequest(
                method=environ["REQUEST_METHOD"],
                target=environ["REQUEST_URI"],
                headers=request_headers(headers, request.address, instance, policy.secret),
                body=body,
            )
            return policy.upstream.ask(asking)

    @contextmanager
    def _taking_part(self, request: FindPorts) -> Iterator[None]:
        """:raises Refusal: who asks has as many requests under way as he may."""
        with self._lock:
            if self._under_way[request] >= self._share:
                raise busy()
            self._under_way[request] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[request] -= 1
                if not self._under_way[request]:
                    del self._under_way[request]


def _headers(environ: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a request, by their names in title case."""
    found = {
        name[5:].replace("_", "-").title(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        found["Content-Type"] = environ["CONTENT_TYPE"]
    return found


def _body(environ: Mapping[str, Any]) -> bytes:
    """:raises Refusal: it is longer than a body may be, or ends early."""
    declared = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = b"" if declared > MOST_BODY else environ["wsgi.input"].read()
    if max(declared, len(body)) > MOST_BODY:
        text = f"the body has more than {MOST_BODY} bytes"
        raise HttpError(413, "HTTPRequestEntityTooLarge", text)
    if len(body) < declared:
        raise HttpError(400, "HTTPBadRequest", "the body ends before its Content-Length")
    return body


def _refused(refusal: HttpError) -> tuple[int, Headers, bytes]:
    words = plain(refusal)
    headers = (
        *refusal.headers.items(),
        ("Content-Type", words.content_type),
        ("Content-Length", str(len(words.body))),
    )
    return refusal.status, headers, words.body


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
