"""Who asked for what, and what became of it: a line of the log for each request."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from netfw.drivers.query import RequestContext
from netfw.model.text_validation import quote

LOG = logging.getLogger(__name__)

REQUESTER: Final = "netfw.requester"
"""Who asks, in the environment of the request, as soon as it is known."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def log_request(environ: Mapping[str, Any], status: int, seconds: float) -> None:
    """Log the request: what only reads for those who look closely, all else for everybody."""
    method = environ["REQUEST_METHOD"]
    level = logging.DEBUG if method in _READS else logging.INFO
    if not LOG.isEnabledFor(level):
        return
    requester: RequestContext | None = environ.get(REQUESTER)
    who = "nobody known"
    if requester is not None:
        who = f"user {quote(requester.user)} of project {quote(requester.project_id)}"
    path = _plain(environ.get("PATH_INFO") or "/")
    LOG.log(level, "%s %s: %d for %s, %.1f ms", _plain(method), path, status, who, seconds * 1000)


def _plain(text: str) -> str:
    """*text* as it is where that can do no harm: ids make it longer than quotes are worth."""
    harmless = text.isascii() and text.isprintable() and " " not in text and len(text) <= 200
    return text if harmless else quote(text)
