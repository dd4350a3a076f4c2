"""Health endpoints of a daemon, and the response to clients before it is ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Check = Callable[[], str]
"""Returns what is wrong; empty when nothing is."""
Reasons = Callable[[], Sequence[str]]
"""Returns why the daemon is not ready, the most important reason first; none when it is."""
ProbeResult = tuple[int, str, bytes]
"""Status, content type, body."""

JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
MAX_REASONS = 20
"""Of reasons in a response; what follows is a number."""


class HealthEndpoints:
    """A WSGI application for the health endpoints, which need no authentication.

    Other paths go to the *api*; until it has started, clients get 503 with Retry-After.  Without
    an API they get 404, with *description*.
    """

    def __init__(
        self,
        *,
        description: str,
        stuck: Check = lambda: "",
        starting: Check = lambda: "",
        ready: Reasons,
        metrics: Callable[[], bytes],
        api: WSGIApplication | None = None,
    ) -> None:
        """Collect the checks.

        :param starting: cheap, since each request calls it.
        :param ready: may query the database.
        """
        self._description, self._stuck = description, stuck
        self._starting, self._ready, self._api = starting, ready, api
        self._probes: dict[str, Callable[[], ProbeResult]] = {
            "/healthz": self._liveness,
            "/readyz": self._readiness,
            "/metrics": lambda: (200, METRICS, metrics()),
        }

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        probe = self._probes.get(environ.get("PATH_INFO", "").rstrip("/"))
        if probe is not None:
            return _answer(probe(), start)
        if self._api is None:
            return _answer(_not_found(self._description), start)
        if why := self._starting():
            return _answer(_unavailable(why), start, ("Retry-After", "1"))
        return self._api(environ, start)

    def _liveness(self) -> ProbeResult:
        why = self._stuck()
        return _state(503, "stuck", (why,)) if why else _state(200, "alive")

    def _readiness(self) -> ProbeResult:
        why = self._starting()
        reasons = [why] if why else self._ready()
        return _state(503, "waiting", reasons) if reasons else _state(200, "ready")


def _state(status: int, word: str, reasons: Sequence[str] = ()) -> ProbeResult:
    result: dict[str, object] = {"status": word}
    if reasons:
        result |= {"reason": reasons[0], "reasons": list(reasons[:MAX_REASONS])}
    if len(reasons) > MAX_REASONS:
        result["more_reasons"] = len(reasons) - MAX_REASONS
    return status, JSON, json.dumps(result).encode()


def _not_found(description: str) -> ProbeResult:
    message = f"{description}; it has /healthz, /readyz and /metrics"
    error = {"type": "HTTPNotFound", "message": message, "detail": ""}
    return 404, JSON, json.dumps({"NeutronError": error}).encode()


def _unavailable(why: str) -> ProbeResult:
    error = {"type": "ServiceUnavailable", "message": f"the server does not serve yet: {why}"}
    return 503, JSON, json.dumps({"NeutronError": {**error, "detail": ""}}).encode()


def _answer(result: ProbeResult, start: StartResponse, *more: tuple[str, str]) -> Iterable[bytes]:
    status, kind, body = result
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *more]
    start(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]
