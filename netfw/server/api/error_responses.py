"""Error responses: status, type and message.

A type is the name of the error class, except where existing clients expect another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.errors import (
    BackendError,
    BackendUnavailable,
    Conflict,
    Forbidden,
    InvalidInput,
    NetfwError,
    NotFound,
    NotSupported,
    Outdated,
    RequestError,
    Unauthorized,
)
from netfw.http.http_error import RETRY_AFTER, ErrorBody, HttpError
from netfw.model.resource import Kind
from netfw.server.api.schema.resource_schema import ApiResource

LONGEST_MESSAGE = 4000


@frozen(kw_only=True)
class ErrorResponse:
    """The response to an error."""

    status: int
    word: str
    message: str
    headers: Mapping[str, str] = field(factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the document of the response."""
        text = self.message
        if len(text) > LONGEST_MESSAGE:
            text = f"{text[:LONGEST_MESSAGE]}..."
        return {"NeutronError": {"type": self.word, "message": text, "detail": ""}}


def render_json_error(refusal: HttpError) -> ErrorBody:
    """Render the error of a request that the HTTP server refused."""
    return ErrorBody("application/json", json.dumps(_refused(refusal).body()).encode())


def _refused(refusal: HttpError) -> ErrorResponse:
    return ErrorResponse(
        status=refusal.status, word=refusal.word, message=str(refusal), headers=refusal.headers
    )


_STATUSES: tuple[tuple[type[NetfwError], int], ...] = (
    (InvalidInput, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Outdated, 412),
    (Conflict, 409),
    (NotSupported, 400),
    (RequestError, 400),
    (BackendUnavailable, 503),
    (BackendError, 503),
)
"""The first class that matches applies."""


def to_response(
    error: NetfwError, resource: ApiResource | None = None, method: str = ""
) -> ErrorResponse | None:
    """Return the response to *error* of a request on *resource*; ``None``: an internal error."""
    if isinstance(error, HttpError):
        return _refused(error)
    status = next((number for cls, number in _STATUSES if isinstance(error, cls)), None)
    if status is None:
        return None
    if status == 503:
        return ErrorResponse(
            status=503,
            word="ServiceUnavailable",
            message="something that the server needs does not answer; try again",
            headers={"Retry-After": RETRY_AFTER},
        )
    headers = {"WWW-Authenticate": error.challenge} if isinstance(error, Unauthorized) else {}
    return ErrorResponse(
        status=status, word=_word(error, resource, method), message=str(error), headers=headers
    )


def _word(error: NetfwError, resource: ApiResource | None, method: str) -> str:
    """Return the type of *error*: the name of its class, unless clients expect another."""
    name = "" if resource is None else resource.name
    if type(error) is NotFound:
        match = _MISSING.match(str(error))
        missing = match[1] if match is not None and match[1] in _KINDS else name
        return f"{_camel(missing)}NotFound" if missing else "HTTPNotFound"
    if type(error) is Conflict and method == "DELETE" and name:
        return f"{_camel(name)}InUse"
    return _WORDS.get(type(error)) or type(error).__name__


def _camel(name: str) -> str:
    special = {"floatingip": "FloatingIP"}
    return special.get(name) or "".join(part.capitalize() for part in name.split("_"))


_MISSING = re.compile(r"there is no (\w+)")
"""The missing resource may differ from that of the request."""
_KINDS = frozenset(kind.value for kind in Kind)
_WORDS: Mapping[type[NetfwError], str] = {
    Outdated: "RevisionNumberConstraintFailed",
    Forbidden: "PolicyNotAuthorized",
    NotSupported: "HTTPBadRequest",
}


def unexpected(request_id: str) -> ErrorResponse:
    """Return the response to an internal error; the log has the details."""
    return ErrorResponse(
        status=500,
        word="HTTPInternalServerError",
        message=f"the server made a mistake; its log has the details of request {request_id}",
    )


def no_such_path(path: str) -> HttpError:
    return HttpError(404, "HTTPNotFound", f"there is nothing at {path}")


def wrong_method(method: str, allowed: frozenset[str]) -> HttpError:
    methods = ", ".join(sorted(allowed))
    return HttpError(
        405,
        "HTTPMethodNotAllowed",
        f"{method[:20]!r} is not possible there; possible: {methods or 'nothing'}",
        {"Allow": methods},
    )
