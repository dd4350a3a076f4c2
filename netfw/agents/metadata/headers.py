"""What goes to the metadata service, and what comes back of its answer.  Pure.

A guest says about itself whatever it likes, and a service believes the agent: so no header passes
that a service, or a proxy before it, could take for the agent's word.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

from netfw.model.address import IpAddress

Headers = tuple[tuple[str, str], ...]

_ID = re.compile(r"[!-~]{1,255}")
_NAME = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z_-]+")
_FOLD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+[ \t]*")
"""Lines that go on in the next one, and what else no header should have."""

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
"""What is said between two neighbours, and to nobody behind them."""

_OURS = HOP_BY_HOP | {"host", "content-length", "expect", "forwarded", "via"}
_CLAIMS = (
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
"""Beginnings of names under which proxies tell services who asks, or what was really asked for."""


@frozen
class Instance:
    """Who owns the port that a request came from."""

    id: str
    project_id: str

    @property
    def nameable(self) -> bool:
        """Whether it can stand in a header."""
        return all(_ID.fullmatch(text) for text in (self.id, self.project_id or "-"))


def signature(secret: str, instance_id: str) -> str:
    """What proves to the service that the agent named the instance."""
    return hmac.new(secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()


def request_headers(
    guest: Mapping[str, str], address: IpAddress, instance: Instance, secret: str
) -> Headers:
    """The headers for the service: the *guest*'s harmless ones, and who it is."""
    named = _named_by(guest.items())
    passed = [
        (name, value)
        for name, value in guest.items()
        if not _is_ours(_plain(name)) and _plain(name) not in named
    ]
    return (
        *passed,
        ("X-Forwarded-For", str(address)),
        ("X-Instance-ID", instance.id),
        ("X-Tenant-ID", instance.project_id),
        ("X-Instance-ID-Signature", signature(secret, instance.id)),
    )


def response_headers(headers: Headers) -> Headers:
    """What of the service's *headers* is for the guest; the length of the body is told anew."""
    named = _named_by(headers) | HOP_BY_HOP | {"content-length"}
    return tuple(
        (name, _FOLD.sub(" ", value))
        for name, value in headers
        if _NAME.fullmatch(name) and _plain(name) not in named
    )


def _plain(name: str) -> str:
    """*name* as those read it who do not tell ``_`` from ``-``."""
    return name.lower().replace("_", "-")


def _is_ours(name: str) -> bool:
    return name in _OURS or name.startswith(_CLAIMS)


def _named_by(headers: Iterable[tuple[str, str]]) -> set[str]:
    """The headers that ``Connection`` says are for the neighbour alone."""
    return {
        _plain(word.strip())
        for name, value in headers
        if _plain(name) == "connection"
        for word in value.split(",")
    }
