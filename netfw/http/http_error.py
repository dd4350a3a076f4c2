"""HTTP errors: requests that fail before they reach the application, and their responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from attrs import frozen

from netfw.errors import RequestError

RETRY_AFTER: Final = "1"


HTTP_TYPES: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "HTTPBadRequest": (400, "The request, its URL or its body cannot be parsed."),
        "HTTPNotFound": (404, "There is nothing at the URL."),
        "HTTPMethodNotAllowed": (405, "The method is not possible there; ``Allow`` lists others."),
        "HTTPRequestTimeout": (408, "The request did not arrive in time."),
        "HTTPRequestEntityTooLarge": (413, "The body or the headers are too large."),
        "HTTPRequestURITooLong": (414, "The URL is too long."),
        "HTTPUnsupportedMediaType": (415, "The body is not ``application/json``."),
        "HTTPExpectationFailed": (417, "``Expect`` is not ``100-continue``."),
        "HTTPInternalServerError": (500, "An internal error; the log has the details."),
        "HTTPNotImplemented": (501, "``Transfer-Encoding`` is not ``chunked``."),
        "ServiceUnavailable": (503, "The server is overloaded, or the database does not answer."),
        "HTTPVersionNotSupported": (505, "The version of HTTP is neither 1.0 nor 1.1."),
    }
)
"""Types of errors before a resource is reached: status and cause."""


class HttpError(RequestError):
    """A request that fails before its resource is reached, by its HTTP, URL or body."""

    def __init__(
        self, status: int, word: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.word, self.headers = status, word, dict(headers or {})
        super().__init__(message)


@frozen
class ErrorBody:
    """The body of a response, and its content type."""

    content_type: str
    body: bytes


ErrorRenderer = Callable[[HttpError], ErrorBody]
"""Renders an error in the format of a server."""


def render_text_error(refusal: HttpError) -> ErrorBody:
    """Render an error as one line of text."""
    return ErrorBody("text/plain; charset=utf-8", f"{refusal}\n".encode())


def render_response(refusal: HttpError, render_error: ErrorRenderer) -> bytes:
    """Render *refusal* as a response, after which the connection is closed."""
    body = render_error(refusal)
    lines = [
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}",
        f"Content-Type: {body.content_type}",
        f"Content-Length: {len(body.body)}",
        *(f"{name}: {value}" for name, value in refusal.headers.items() if name != "Connection"),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body.body


def malformed(message: str) -> HttpError:
    """Return the error for a request that cannot be parsed."""
    return HttpError(400, "HTTPBadRequest", message)


def busy() -> HttpError:
    """Return the error for an overloaded server."""
    text = "the server has more to do than it can; try again"
    return HttpError(503, "ServiceUnavailable", text, {"Retry-After": RETRY_AFTER})
