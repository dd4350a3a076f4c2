"""One API request and its response, as the controller handles them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from netfw.drivers.server.query import RequestContext
from netfw.errors.requests import BadRequest
from netfw.http.connection import Successor
from netfw.model.values.text_validation import quote
from netfw.server.api.query_params import Parameters
from netfw.server.api.request_body import RequestLimits, read_object
from netfw.server.api.routing import RequestTarget

PUBLIC_URL: Final = "netfw.public_url"
"""Key of the configured URL in the WSGI environment."""

_IF_MATCH = re.compile(r'"?revision_number=(\d{1,18})"?')


@frozen(kw_only=True)
class ApiResponse:
    """Status, body and headers of a response."""

    status: int
    body: Mapping[str, Any] | bytes | None = None
    """Bytes are sent as they are."""
    headers: Mapping[str, str] = field(factory=dict)
    """A content type among them takes the place of JSON."""
    successor: Successor | None = None
    """What goes on with the response after its head."""


@frozen(kw_only=True)
class ApiRequest:
    """An authenticated request on a resource; its body is read on demand."""

    method: str
    route: RequestTarget
    requester: RequestContext
    parameters: Parameters
    environ: Mapping[str, Any]
    limits: RequestLimits

    def body(self) -> dict[str, Any]:
        """Read and parse the body; empty without one.

        :raises HttpError: the body is not one unambiguous JSON object within the limits.
        """
        return read_object(self.environ, self.limits)

    def revision(self) -> int | None:
        """Return the revision that ``If-Match: revision_number=7`` requires, or ``None``.

        :raises BadRequest: the header has another form.
        """
        header = (self.environ.get("HTTP_IF_MATCH") or "").strip()
        if header in ("", "*"):
            return None
        match = _IF_MATCH.fullmatch(header)
        if match is None:
            raise BadRequest({"If-Match": f"not like revision_number=7: {quote(header)}"})
        return int(match[1])

    def url(self) -> str:
        """Return the URL of the request without its query string."""
        return f"{base_url(self.environ)}{self.environ.get('PATH_INFO', '')}"


def base_url(environ: Mapping[str, Any]) -> str:
    """Return the URL of the API: the configured one, or as the client addresses it."""
    if configured := environ.get(PUBLIC_URL):
        return str(configured)
    host = environ.get("HTTP_HOST") or environ.get("SERVER_NAME") or "localhost"
    scheme = environ.get("wsgi.url_scheme") or "http"
    return f"{scheme}://{host}{environ.get('SCRIPT_NAME', '')}"
