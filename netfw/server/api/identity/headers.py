"""What a request says of who sent it, read from its headers with care.

Whether it is believed is decided elsewhere; here only what cannot be meant is refused: control
characters, text that is not UTF-8, names without end, a header given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from netfw.errors import InvalidInput

LONGEST_NAME = 255
LONGEST_TOKEN = 16_384
MOST_ROLES = 100

Environ = Mapping[str, Any]
"""The WSGI environment of a request."""


@frozen(kw_only=True)
class ClaimedIdentity:
    """Somebody, as one method of identity knows him."""

    project_id: str = ""
    user: str = ""
    roles: frozenset[str] = frozenset()


@frozen
class Unauthenticated:
    """A request that a method cannot tell anything of."""

    wants: str
    """What the method would need, as the end of a sentence."""


Method = Callable[[Environ], ClaimedIdentity | Unauthenticated]
"""Says who asks.  Called by several threads at once.

Raises ``InvalidInput`` for what nobody can mean, and ``BackendUnavailable`` when who could tell
does not answer.
"""


@frozen(kw_only=True)
class NamedIdentity:
    """The identity headers of a request; ``None`` where one is missing."""

    project_id: str | None = None
    user: str | None = None
    roles: frozenset[str] | None = None


def named_identity(environ: Environ) -> NamedIdentity:
    """What ``X-Project-Id``, ``X-User-Id`` and ``X-Roles`` say; ``X-Tenant-Id`` is the former.

    :raises InvalidInput: one of them cannot be meant.
    """
    project, tenant = _name(environ, "X-Project-Id"), _name(environ, "X-Tenant-Id")
    if project is not None and tenant is not None and project != tenant:
        raise InvalidInput({"X-Tenant-Id": "contradicts X-Project-Id"})
    return NamedIdentity(
        project_id=tenant if project is None else project,
        user=_name(environ, "X-User-Id"),
        roles=_roles(environ),
    )


def token(environ: Environ) -> str | None:
    """What ``X-Auth-Token`` says.

    :raises InvalidInput: it cannot be a token.
    """
    found = header(environ, "X-Auth-Token", LONGEST_TOKEN)
    if found is not None and not (found.isascii() and found.isprintable() and " " not in found):
        raise InvalidInput({"X-Auth-Token": "is not a token: only visible ASCII characters can be"})
    return found or None


def header(environ: Environ, name: str, longest: int = LONGEST_NAME) -> str | None:
    """The text of a header.

    :raises InvalidInput: it is too long, not UTF-8, or has characters that do not print.
    """
    raw = environ.get("HTTP_" + name.upper().replace("-", "_"))
    if raw is None:
        return None
    if len(raw) > longest:
        raise InvalidInput({name: f"is longer than {longest} octets"})
    try:
        text = raw.encode("latin-1").decode("utf-8")
    except UnicodeError as exc:
        raise InvalidInput({name: "is not UTF-8 text"}) from exc
    if not text.isprintable():
        raise InvalidInput({name: "has control characters"})
    return str(text.strip())


def _name(environ: Environ, header_name: str) -> str | None:
    found = header(environ, header_name)
    if found and "," in found:  # what a server makes of a header that was given twice
        raise InvalidInput({header_name: "names more than one; give it once"})
    return found or None


def _roles(environ: Environ) -> frozenset[str] | None:
    found = header(environ, "X-Roles", LONGEST_NAME * MOST_ROLES)
    if found is None:
        return None
    roles = frozenset(role.strip().lower() for role in found.split(",")) - {""}
    if len(roles) > MOST_ROLES or any(len(role) > LONGEST_NAME for role in roles):
        raise InvalidInput({"X-Roles": f"has more than {MOST_ROLES} roles, or one without end"})
    return roles
