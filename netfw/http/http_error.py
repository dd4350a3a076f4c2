"""HTTP errors: requests that fail before they reach the application, and their responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from attrs import frozen

from netfw.errors import RequestError

RETRY_AFTER: Final = "1"


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
