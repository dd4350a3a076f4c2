"""Access log: one line per request with method, path, status, requester and duration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from netfw.drivers.server.query import RequestContext
from netfw.model.values.text_validation import quote

LOG = logging.getLogger(__name__)

REQUESTER: Final = "netfw.requester"
"""Key of the :class:`RequestContext` in the WSGI environment, set after authentication."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def log_request(environ: Mapping[str, Any], status: int, seconds: float) -> None:
    """Log the request: reads at level debug, writes at level info."""
    method = environ["REQUEST_METHOD"]
    level = logging.DEBUG if method in _READS else logging.INFO
    if not LOG.isEnabledFor(level):
        return
    requester: RequestContext | None = environ.get(REQUESTER)
    subject = "an unknown user"
    if requester is not None:
        subject = f"user {quote(requester.user)} of project {quote(requester.project_id)}"
    ms = seconds * 1000
    path = _plain(environ.get("PATH_INFO") or "/")
    LOG.log(level, "%s %s: %d for %s, %.1f ms", _plain(method), path, status, subject, ms)


def _plain(text: str) -> str:
    """Return *text*, quoted unless it is short printable ASCII without spaces."""
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= 200
    return text if plain else quote(text)
