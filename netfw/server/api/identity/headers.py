"""Identity headers of a request: parsed strictly, trusted by other modules or not.

Control characters, text that is not UTF-8, long names and repeated headers are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from netfw.errors.requests import HTTPBadRequest

LONGEST_NAME = 255
LONGEST_TOKEN = 16_384
MAX_ROLES = 100

Environ = Mapping[str, Any]
"""The WSGI environment of a request."""


@frozen(kw_only=True)
class ClaimedIdentity:
    """Project, user and roles, as one authentication method determined them."""

    project_id: str = ""
    user: str = ""
    roles: frozenset[str] = frozenset()


@frozen
class Unauthenticated:
    """A request that a method cannot authenticate."""

    wants: str
    """What the method requires, as the end of a sentence."""


Method = Callable[[Environ], ClaimedIdentity | Unauthenticated]
"""An authentication method.  Called by several threads at once.

Raises ``HTTPBadRequest`` for malformed headers, and ``BackendUnavailable`` when the identity
service does not answer.
"""


@frozen(kw_only=True)
class NamedIdentity:
    """The identity headers of a request; ``None`` where one is missing."""

    project_id: str | None = None
    user: str | None = None
    roles: frozenset[str] | None = None


def named_identity(environ: Environ) -> NamedIdentity:
    """Parse ``X-Project-Id`` (or ``X-Tenant-Id``), ``X-User-Id`` and ``X-Roles``.

    :raises HTTPBadRequest: a header is malformed, or two contradict each other.
    """
    project, tenant = _name(environ, "X-Project-Id"), _name(environ, "X-Tenant-Id")
    if project is not None and tenant is not None and project != tenant:
        raise HTTPBadRequest({"X-Tenant-Id": "contradicts X-Project-Id"})
    return NamedIdentity(
        project_id=tenant if project is None else project,
        user=_name(environ, "X-User-Id"),
        roles=_roles(environ),
    )


def token(environ: Environ) -> str | None:
    """Return the token in ``X-Auth-Token``, or ``None``.

    :raises HTTPBadRequest: it cannot be a token.
    """
    value = header(environ, "X-Auth-Token", LONGEST_TOKEN)
    if value is not None and not (value.isascii() and value.isprintable() and " " not in value):
        raise HTTPBadRequest(
            {"X-Auth-Token": "is not a token: only visible ASCII characters can be"}
        )
    return value or None


def header(environ: Environ, name: str, longest: int = LONGEST_NAME) -> str | None:
    """Return the text of a header, or ``None``.

    :raises HTTPBadRequest: it is too long, not UTF-8, or not printable.
    """
    raw = environ.get("HTTP_" + name.upper().replace("-", "_"))
    if raw is None:
        return None
    if len(raw) > longest:
        raise HTTPBadRequest({name: f"is longer than {longest} octets"})
    try:
        text = raw.encode("latin-1").decode("utf-8")
    except UnicodeError as exc:
        raise HTTPBadRequest({name: "is not UTF-8 text"}) from exc
    if not text.isprintable():
        raise HTTPBadRequest({name: "has control characters"})
    return str(text.strip())


def _name(environ: Environ, header_name: str) -> str | None:
    value = header(environ, header_name)
    if value and "," in value:  # a WSGI server joins repeated headers by commas
        raise HTTPBadRequest({header_name: "names more than one; give it once"})
    return value or None


def _roles(environ: Environ) -> frozenset[str] | None:
    value = header(environ, "X-Roles", LONGEST_NAME * MAX_ROLES)
    if value is None:
        return None
    roles = frozenset(role.strip().lower() for role in value.split(",")) - {""}
    if len(roles) > MAX_ROLES or any(len(role) > LONGEST_NAME for role in roles):
        raise HTTPBadRequest({"X-Roles": f"has more than {MAX_ROLES} roles, or one without end"})
    return roles
