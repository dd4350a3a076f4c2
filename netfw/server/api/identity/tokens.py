"""``tokens``: authentication by a file of hashed tokens.

A line is ``HASH USER PROJECT ROLES [until=TIME]``; ``#`` begins a comment.  HASH is ``sha256:`` and
the digest of the token in hexadecimal: tokens are made by :func:`new_token` and cannot be guessed,
so a fast hash is enough.  PROJECT is ``-`` for a user without one, ROLES are separated by commas,
TIME is such as ``2027-01-31`` or ``2027-01-31T12:00Z``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from attrs import frozen

from netfw.errors import ConfigError
from netfw.linux.fs.token_file import parse_token_file
from netfw.server.api.identity.headers import (
    LONGEST_NAME,
    ClaimedIdentity,
    Environ,
    Unauthenticated,
    token,
)
from netfw.server.api.reloading_file import ReloadingFile

_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@frozen(kw_only=True)
class KnownToken:
    """A line of the file."""

    hash: str
    identity: ClaimedIdentity
    until: datetime | None = None


class Tokens:
    """The authentication method ``tokens``."""

    def __init__(self, path: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Read the tokens of the file *path*.

        :raises ConfigError: the file cannot be used.
        """
        self._now = now
        self._file = ReloadingFile(path, partial(parse_tokens, path), private=True)

    def __call__(self, environ: Environ) -> ClaimedIdentity | Unauthenticated:
        given = token(environ)
        if given is None:
            return Unauthenticated("a token in X-Auth-Token")
        known = self._find(given)
        if known is None:
            return Unauthenticated("a token in X-Auth-Token that is known here")
        if known.until is not None and known.until <= self._now():
            return Unauthenticated("a token in X-Auth-Token that has not expired")
        return known.identity

    def reload_if_changed(self) -> None:
        """Reload the file if it changed; a problem is logged."""
        self._file.reload_if_changed()

    def reload(self) -> None:
        """Reload the file.

        :raises ConfigError: the file is not usable; the former tokens stay in force.
        """
        self._file.reload()

    def _find(self, given: str) -> KnownToken | None:
        """Return the token equal to *given*; the time does not depend on which one it is."""
        digest = hash_token(given)
        match = None
        for known in self._file.value:
            if hmac.compare_digest(known.hash, digest):
                match = known
        return match


def new_token() -> str:
    """Return a new random token."""
    return "nfw_" + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return the hash of the token, as the file has it."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def issue(identity: ClaimedIdentity, until: datetime | None = None) -> tuple[str, str]:
    """Return a new token for *identity*, and its line for the file.

    :raises ConfigError: a name has characters that the file cannot hold.
    """
    token = new_token()
    if until is not None and until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return token, render_token(KnownToken(hash=hash_token(token), identity=identity, until=until))


def append_line(path: str, line: str) -> None:
    """Append *line* to the file, which is created with mode 0600.

    :raises ConfigError: the file cannot be written.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(file, "a+", encoding="utf-8") as opened:
            opened.seek(0)
            text = opened.read()
            separator = "" if not text or text.endswith("\n") else "\n"
            opened.write(f"{separator}{line}\n")
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc


def render_token(known: KnownToken) -> str:
    """Render the line of the file.

    :raises ConfigError: a name has characters that the file cannot hold.
    """
    identity = known.identity
    names = (identity.user, identity.project_id or "-", *identity.roles)
    if any(set(name) & set(" ,#") for name in names):
        raise ConfigError("the names of user, project and roles must not have spaces, commas or #")
    until = () if known.until is None else (f"until={known.until.astimezone(UTC).isoformat()}",)
    line = " ".join((known.hash, *names[:2], ",".join(sorted(identity.roles)), *until))
    parse_tokens("the new token", line)
    return line


def parse_tokens(path: str, text: str) -> tuple[KnownToken, ...]:
    """Parse the text of a token file.

    :raises ConfigError: names a wrong line, without quoting it.
    """
    return parse_token_file(text, path, _parse_line, key="token", inline_comments=True)


def _parse_line(words: list[str]) -> tuple[str, KnownToken]:
    if len(words) not in (4, 5):
        raise ValueError("must be HASH USER PROJECT ROLES [until=TIME]")
    hash, user, project, roles = words[:4]
    if not _HASH.fullmatch(hash):
        raise ValueError("the first word must be sha256: and 64 digits, not the token itself")
    names = [user, project, *roles.split(",")]
    if not all(name and len(name) <= LONGEST_NAME and name.isprintable() for name in names):
        raise ValueError(f"user, project and roles must have 1 to {LONGEST_NAME} characters")
    identity = ClaimedIdentity(
        project_id="" if project == "-" else project,
        user=user,
        roles=frozenset(role.lower() for role in roles.split(",")),
    )
    return hash, KnownToken(hash=hash, identity=identity, until=_parse_until(*words[4:]))


def _parse_until(word: str | None = None) -> datetime | None:
    if word is None:
        return None
    if not word.startswith("until="):
        raise ValueError("the fifth word must be until=TIME")
    try:
        time = datetime.fromisoformat(word.removeprefix("until="))
    except ValueError as exc:
        raise ValueError("the time must be such as 2027-01-31 or 2027-01-31T12:00Z") from exc
    return time if time.tzinfo else time.replace(tzinfo=UTC)
