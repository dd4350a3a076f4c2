"""Refusal: a request that HTTP itself, or its form, puts at fault; and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from attrs import frozen

from netfw.errors import RequestError

RETRY_AFTER: Final = "1"


class HttpError(RequestError):
    """A request that never reaches what it is about: HTTP or its body are at fault, or the URL."""

    def __init__(
        self, status: int, word: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.word, self.headers = status, word, dict(headers or {})
        super().__init__(message)


@frozen
class ErrorBody:
    """The body of an answer, and its type."""

    content_type: str
    body: bytes


Wording = Callable[[HttpError], ErrorBody]
"""In which form a server says no."""


def plain(refusal: HttpError) -> ErrorBody:
    """One sentence, as text."""
    return ErrorBody("text/plain; charset=utf-8", f"{refusal}\n".encode())


def rendered(refusal: HttpError, wording: Wording) -> bytes:
    """*refusal* as an answer, after which the connection is closed."""
    words = wording(refusal)
    lines = [
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}",
        f"Content-Type: {words.content_type}",
        f"Content-Length: {len(words.body)}",
        *(f"{name}: {value}" for name, value in refusal.headers.items() if name != "Connection"),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + words.body


def malformed(message: str) -> HttpError:
    """A request that cannot be understood."""
    return HttpError(400, "HTTPBadRequest", message)


def busy() -> HttpError:
    """What clients are told when there is too much to do."""
    text = "the server has more to do than it can; try again"
    return HttpError(503, "ServiceUnavailable", text, {"Retry-After": RETRY_AFTER})
