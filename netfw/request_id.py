"""The id of the request that this thread works on: it follows an API call from process to process,
and into the log lines of each."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final
from uuid import uuid4

_CURRENT: ContextVar[str] = ContextVar("netfw_request_id", default="")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


def current() -> str:
    """The id; empty outside any request."""
    return _CURRENT.get()


def new() -> str:
    """An id for a request that brought none."""
    return f"req-{uuid4()}"


def sanitize(claim: str) -> str:
    """*claim* where it is a plain word that can stand in a log line; else an id of our own."""
    return claim if _PLAIN.fullmatch(claim) else new()


@contextmanager
def bind(request_id: str) -> Iterator[None]:
    """Work on that request."""
    token = _CURRENT.set(request_id)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def log_filter(record: logging.LogRecord) -> bool:
    """A filter for log handlers: gives each record the ``request_id`` of its thread."""
    record.request_id = current()
    return True
