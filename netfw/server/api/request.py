"""One request and its answer, as the controller sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.query import RequestContext
from netfw.errors import InvalidInput
from netfw.model.text_validation import quote
from netfw.server.api import request_body
from netfw.server.api.query_params import Parameters
from netfw.server.api.request_body import RequestLimits
from netfw.server.api.routing import Route

_IF_MATCH = re.compile(r'"?revision_number=(\d{1,18})"?')


@frozen(kw_only=True)
class ApiResponse:
    """What a client gets."""

    status: int
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class ApiRequest:
    """What a client asks, with who it is; its body is read when somebody wants it."""

    method: str
    route: Route
    requester: RequestContext
    parameters: Parameters
    environ: Mapping[str, Any]
    bounds: RequestLimits

    def body(self) -> dict[str, Any]:
        """The document that it sent.

        :raises Refusal: it sent none that can be understood.
        """
        request_body.check_type(self.environ.get("CONTENT_TYPE") or "")
        return request_body.document(request_body.read(self.environ, self.bounds.body), self.bounds)

    def revision(self) -> int | None:
        """The revision that it is meant for, by ``If-Match: revision_number=7``.

        :raises InvalidInput: the header says something else.
        """
        header = (self.environ.get("HTTP_IF_MATCH") or "").strip()
        if header in ("", "*"):
            return None
        found = _IF_MATCH.fullmatch(header)
        if found is None:
            raise InvalidInput({"If-Match": f"not like revision_number=7: {quote(header)}"})
        return int(found[1])

    def url(self) -> str:
        """The address that it was sent to, without its query."""
        host = self.environ.get("HTTP_HOST") or self.environ.get("SERVER_NAME") or "localhost"
        scheme = self.environ.get("wsgi.url_scheme") or "http"
        where = f"{self.environ.get('SCRIPT_NAME', '')}{self.environ.get('PATH_INFO', '')}"
        return f"{scheme}://{host}{where}"
