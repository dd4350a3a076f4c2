"""Request id of the current thread: passed with an API request from process to process, and into
the log lines of each."""

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
    """Return the request id; empty outside any request."""
    return _CURRENT.get()


def new() -> str:
    """Return an id for a request without one."""
    return f"req-{uuid4()}"


def sanitize(request_id: str) -> str:
    """Return *request_id* if it is a plain word that is safe in a log line, else a new id."""
    return request_id if _PLAIN.fullmatch(request_id) else new()


@contextmanager
def bind(request_id: str) -> Iterator[None]:
    """Set the request id of this thread within the block."""
    token = _CURRENT.set(request_id)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def log_filter(record: logging.LogRecord) -> bool:
    """Add the ``request_id`` of its thread to a log record; a filter for log handlers."""
    record.request_id = current()
    return True
