"""Files of the live page.  They hold no data, and need no identity."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from netfw.server.api.discovery import EncodedDocument
from netfw.server.api.request import ApiResponse

INDEX: Final = "index.html"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_CONFINEMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }
)
"""Headers that let the page load and request nothing but what this server has."""


def static_file(name: str, environ: Mapping[str, Any]) -> ApiResponse | None:
    """Return the file *name* of the page, or ``None``."""
    document = _documents().get(name)
    if document is None:
        return None
    response = document.response(environ)
    content_type = {"Content-Type": _TYPES[name.rpartition(".")[2]]}
    return evolve(response, headers={**response.headers, **content_type, **_CONFINEMENT})


@functools.cache
def _documents() -> Mapping[str, EncodedDocument]:
    """Read the files, at the first request for the page."""
    folder = resources.files("netfw.server.api.live") / "static"
    return {
        each.name: EncodedDocument(each.read_bytes())
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in _TYPES
    }
