"""Headers to and from the metadata service.  Pure.

A guest can send any header, and the service trusts the agent.  So no header is forwarded that the
service, or a proxy before it, could take for one of the agent.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

from netfw.model.values.address import IpAddress

Headers = tuple[tuple[str, str], ...]

_ID = re.compile(r"[!-~]{1,255}")
_NAME = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z_-]+")
_FOLD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+[ \t]*")
"""Line folding and control characters, which a header must not contain."""

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers for one connection only (RFC 9110, 7.6.1)."""

_RESERVED = HOP_BY_HOP | {"host", "content-length", "expect", "forwarded", "via"}
_IDENTITY_PREFIXES = (
    "cf-connecting-ip",
    "client-ip",
    "true-client-ip",
    "x-client-",
    "x-cluster-client-",
    "x-forwarded-",
    "x-http-method",
    "x-identity-",
    "x-instance-id",
    "x-metadata-provider",
    "x-method-override",
    "x-neutron-",
    "x-original-",
    "x-originating-",
    "x-project-",
    "x-real-ip",
    "x-remote-",
    "x-rewrite-",
    "x-roles",
    "x-service-",
    "x-tenant-",
    "x-user-",
)
"""Prefixes of headers by which proxies pass the identity or the original request on."""


@frozen
class RequestingInstance:
    """The instance and project of the port that a request came from."""

    id: str
    project_id: str

    @property
    def fits_header(self) -> bool:
        """Whether the ids are valid header values."""
        return all(_ID.fullmatch(text) for text in (self.id, self.project_id or "-"))


def signature(secret: str, instance_id: str) -> str:
    """Return the HMAC by which the service verifies the instance id."""
    return hmac.new(secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()


def request_headers(
    guest: Mapping[str, str], address: IpAddress, instance: RequestingInstance, secret: str
) -> Headers:
    """Return the headers for the service: the *guest*'s allowed ones, and the instance's ids."""
    connection_only = _named_by_connection(guest.items())
    forwarded = [
        (name, value)
        for name, value in guest.items()
        if not _is_reserved(_plain(name)) and _plain(name) not in connection_only
    ]
    return (
        *forwarded,
        ("X-Forwarded-For", str(address)),
        ("X-Instance-ID", instance.id),
        ("X-Tenant-ID", instance.project_id),
        ("X-Instance-ID-Signature", signature(secret, instance.id)),
    )


def response_headers(headers: Headers) -> Headers:
    """Return the service's *headers* for the guest, without the length of the body."""
    dropped = _named_by_connection(headers) | HOP_BY_HOP | {"content-length"}
    return tuple(
        (name, _FOLD.sub(" ", value))
        for name, value in headers
        if _NAME.fullmatch(name) and _plain(name) not in dropped
    )


def _plain(name: str) -> str:
    """Return *name* in lower case with ``-`` for ``_``, as some servers read it."""
    return name.lower().replace("_", "-")


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or name.startswith(_IDENTITY_PREFIXES)


def _named_by_connection(headers: Iterable[tuple[str, str]]) -> set[str]:
    """Return the header names that ``Connection`` lists."""
    return {
        _plain(word.strip())
        for name, value in headers
        if _plain(name) == "connection"
        for word in value.split(",")
    }
