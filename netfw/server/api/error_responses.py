"""Error responses: status, type and message.

The class of an error declares its type (``RequestError.api_type``); its base decides the status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.errors import (
    BackendError,
    BackendUnavailable,
    Conflict,
    Forbidden,
    InUse,
    InvalidInput,
    NetfwError,
    NotFound,
    NotSupported,
    Outdated,
    RequestError,
    ResourceExhausted,
    Unauthorized,
)
from netfw.errors.registry import in_use, not_found
from netfw.http.http_error import RETRY_AFTER, ErrorBody, HttpError
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
    (ResourceExhausted, 503),
    (Conflict, 409),
    (NotSupported, 400),
    (RequestError, 400),
    (BackendUnavailable, 503),
    (BackendError, 503),
)
"""The first class that matches applies."""


def status_of(kind: type[NetfwError]) -> int | None:
    """Return the status of errors of *kind*; ``None``: they are internal errors."""
    return next((number for base, number in _STATUSES if issubclass(kind, base)), None)


def to_response(error: NetfwError, resource: ApiResource | None = None) -> ErrorResponse | None:
    """Return the response to *error* of a request on *resource*; ``None``: an internal error."""
    if isinstance(error, HttpError):
        return _refused(error)
    status = status_of(type(error))
    if status is None:
        return None
    if not isinstance(error, RequestError):
        return ErrorResponse(
            status=status,
            word="ServiceUnavailable",
            message="something that the server needs does not answer; try again",
            headers={"Retry-After": RETRY_AFTER},
        )
    headers = {"WWW-Authenticate": error.challenge} if isinstance(error, Unauthorized) else {}
    return ErrorResponse(
        status=status, word=_type_of(error, resource), message=str(error), headers=headers
    )


def _type_of(error: RequestError, resource: ApiResource | None) -> str:
    """Return the declared type of *error*.

    A plain ``NotFound`` or ``InUse``, which plugins of vendors raise, is that of *resource*.
    """
    if type(error) is NotFound:
        return "HTTPNotFound" if resource is None else not_found(resource.name).api_type
    if type(error) is InUse and resource is not None:
        return in_use(resource.name).api_type
    return error.api_type


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
