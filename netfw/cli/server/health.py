"""Health endpoints of the server, and the response to clients before it is ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Check = Callable[[], str]
"""Returns why the server is not ready; empty when it is."""
ProbeResult = tuple[int, str, bytes]
"""Status, content type, body."""

JSON = "application/json"
ALIVE: ProbeResult = (200, JSON, b'{"status":"alive"}')
NO_API: ProbeResult = (
    404,
    JSON,
    b'{"NeutronError": {"type": "HTTPNotFound", "detail": "", "message": '
    b'"this server answers agents only ([server] serve); it has /healthz, /readyz and /metrics"}}',
)


class HealthEndpoints:
    """A WSGI application for the health endpoints, which need no authentication.

    Other paths go to the API, if this server has one; until it has started, clients get 503 with
    Retry-After.
    """

    def __init__(
        self,
        *,
        starting: Check,
        ready: Check,
        metrics: Callable[[], bytes],
        api: WSGIApplication | None,
    ) -> None:
        """*starting* is cheap and called for every request; *ready* may query the database."""
        self._starting, self._ready, self._api = starting, ready, api
        self._probes: dict[str, Callable[[], ProbeResult]] = {
            "/healthz": lambda: ALIVE,
            "/readyz": self._readiness,
            "/metrics": lambda: (200, "text/plain; version=0.0.4; charset=utf-8", metrics()),
        }

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        probe = self._probes.get(environ.get("PATH_INFO", "").rstrip("/"))
        if probe is not None:
            return _answer(probe(), start)
        if self._api is None:
            return _answer(NO_API, start)
        if why := self._starting():
            return _answer(_unavailable(why), start, ("Retry-After", "1"))
        return self._api(environ, start)

    def _readiness(self) -> ProbeResult:
        why = self._starting() or self._ready()
        result = {"status": "waiting", "reason": why} if why else {"status": "ready"}
        return 503 if why else 200, JSON, json.dumps(result).encode()


def _unavailable(why: str) -> ProbeResult:
    error = {"type": "ServiceUnavailable", "message": f"the server does not serve yet: {why}"}
    return 503, JSON, json.dumps({"NeutronError": {**error, "detail": ""}}).encode()


def _answer(result: ProbeResult, start: StartResponse, *more: tuple[str, str]) -> Iterable[bytes]:
    status, kind, body = result
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *more]
    start(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]
