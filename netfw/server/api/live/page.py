"""The end points of the live page, below ``/live``."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

import orjson
from attrs import evolve, frozen

from netfw.diagnosis.resource_reader import ResourceReader
from netfw.drivers.server.query import RequestContext
from netfw.drivers.state_source import Cursor
from netfw.errors import InvalidInput
from netfw.http.event_streams import CONTENT_TYPE, EventStreams
from netfw.http.http_error import HttpError
from netfw.model.values.text_validation import quote
from netfw.server.api.discovery import EncodedDocument
from netfw.server.api.error_responses import no_such_path, wrong_method
from netfw.server.api.live.desired_trace import parse_question, trace_connection
from netfw.server.api.live.own_api import OwnApi
from netfw.server.api.live.static_files import INDEX, static_file
from netfw.server.api.live.topology import read_topology
from netfw.server.api.query_params import parse_query_string
from netfw.server.api.request import ApiResponse

PATH: Final = "live"
EXPLAINED: Final = ("port", "router")
_UNCACHED: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

CommitListener = Callable[[Cursor, frozenset[str] | None], None]


@frozen(kw_only=True)
class ChangeSource:
    """The commits of the database."""

    cursor: Callable[[], Cursor]
    """Returns the newest commit."""
    listen: Callable[[CommitListener], Callable[[], None]]
    """Announces commits until the returned function is called."""


class LivePage:
    """Static files for all; topology, reasons, traces and changes for authorised requests."""

    def __init__(self, changes: ChangeSource, streams: EventStreams) -> None:
        self._changes, self._streams = changes, streams
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._newest: Cursor | None = None
        self._nonce, self._reports = uuid4().hex, 0

    def describe(self, parts: tuple[str, ...], environ: Mapping[str, Any]) -> ApiResponse | None:
        """Return a file of the page, or ``None`` for what needs an identity.

        :raises HttpError: the method is not ``GET``.
        """
        _require_get(environ)
        if not parts and not str(environ.get("PATH_INFO", "")).endswith("/"):
            return ApiResponse(status=308, headers={"Location": f"{PATH}/"})
        return static_file(parts[0] if parts else INDEX, environ) if len(parts) < 2 else None

    def respond(
        self, parts: tuple[str, ...], environ: Mapping[str, Any], api: OwnApi
    ) -> ApiResponse:
        """Return what the requester of *api* may see.

        :raises NetfwError: it does not exist, or is wrongly asked for.
        """
        if parts == ("events",):
            return self._open_stream(api.requester, environ)
        answers: Mapping[str, Callable[[OwnApi, Mapping[str, str]], Mapping[str, Any]]] = {
            "topology": lambda api, query: read_topology(api, query.get("network_id", "")),
            "explain": _explain,
            "trace": lambda api, query: trace_connection(api, parse_question(query)),
        }
        if len(parts) != 1 or parts[0] not in answers:
            raise no_such_path(quote("/".join(("", PATH, *parts))))
        query = dict(parse_query_string(str(environ.get("QUERY_STRING") or ""), api.limits))
        document = EncodedDocument(orjson.dumps(answers[parts[0]](api, query), default=dict))
        response = document.response(environ)
        return evolve(response, headers={**response.headers, **_UNCACHED})

    def note_reports(self) -> None:
        """Tell the pages that agents reported statuses, which are no commits of the journal."""
        with self._lock:
            self._reports += 1
            if len(self._streams):
                self._streams.publish(self._state_id())

    def close(self) -> None:
        """End the streams."""
        self._streams.close()
        with self._lock:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def _open_stream(self, requester: RequestContext, environ: Mapping[str, Any]) -> ApiResponse:
        if "netfw.hand_over" not in environ:
            raise HttpError(501, "HTTPNotImplemented", "this HTTP server has no event streams")
        known = str(environ.get("HTTP_LAST_EVENT_ID") or "")[:64]
        stream = self._streams.reserve(requester.project_id, known)
        try:
            self._listen()
            self._publish(self._changes.cursor())
        except BaseException:
            stream.release()
            raise
        headers = {"Content-Type": CONTENT_TYPE, "X-Accel-Buffering": "no", **_UNCACHED}
        return ApiResponse(status=200, headers=headers, successor=stream)

    def _listen(self) -> None:
        """Listen for commits, from the first stream on until there is none."""
        with self._lock:
            if self._stop is not None:
                return
            self._stop = lambda: None
        stop: Callable[[], None] | None = None  # if it fails, the next stream tries again
        try:
            stop = self._changes.listen(self._on_commit)
        finally:
            with self._lock:
                self._stop = stop

    def _on_commit(self, cursor: Cursor, concerned: frozenset[str] | None) -> None:
        """Publish a commit; in the thread that detects commits, so it does not wait for a lock."""
        del concerned
        self._publish(cursor)
        if not len(self._streams) and self._lock.acquire(blocking=False):
            try:
                if self._stop is not None and not len(self._streams):
                    self._stop()
                    self._stop = None
            finally:
                self._lock.release()

    def _publish(self, cursor: Cursor) -> None:
        """Publish the state after *cursor*, unless a later one was."""
        last = self._newest
        if last is None or last.epoch != cursor.epoch or last.seq <= cursor.seq:
            self._newest = cursor
            self._streams.publish(self._state_id())

    def _state_id(self) -> str:
        """Return an id that does not say how many commits there are.

        It is equal in all processes until agents report statuses to one of them.
        """
        parts = [] if self._newest is None else [self._newest.epoch, str(self._newest.seq)]
        parts += [self._nonce, str(self._reports)] if self._reports else []
        return hashlib.sha256(":".join(parts).encode()).hexdigest()[:16]


def _explain(api: OwnApi, query: Mapping[str, str]) -> Mapping[str, Any]:
    kind, id = query.get("kind", ""), query.get("id", "")
    if kind not in EXPLAINED:
        raise InvalidInput({"kind": f"not one of {', '.join(EXPLAINED)}"})
    return ResourceReader(api=api).explain(kind, id).to_dict()


def _require_get(environ: Mapping[str, Any]) -> None:
    method: str = environ["REQUEST_METHOD"]
    if method != "GET":
        raise wrong_method(method, frozenset({"GET"}))
