"""``tokens``: a file of tokens, each hashed, with whose it is.

A line is ``HASH USER PROJECT ROLES [until=TIME]``; ``#`` begins a remark.  HASH is ``sha256:`` and
the digest of the token in hexadecimal: tokens are made by :func:`new_token` and cannot be guessed,
so that nothing slower is needed.  PROJECT is ``-`` for somebody without one, ROLES are separated by
commas, TIME is such as ``2027-01-31`` or ``2027-01-31T12:00Z``.
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
    claim: ClaimedIdentity
    until: datetime | None = None


class Tokens:
    """Knows who has which token."""

    def __init__(self, path: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """:raises ConfigError: the file cannot be used."""
        self._now = now
        self._file = ReloadingFile(path, partial(parse_tokens, path), private=True)

    def __call__(self, environ: Environ) -> ClaimedIdentity | Unauthenticated:
        given = token(environ)
        if given is None:
            return Unauthenticated("a token in X-Auth-Token")
        found = self._find(given)
        if found is None:
            return Unauthenticated("a token in X-Auth-Token that is known here")
        if found.until is not None and found.until <= self._now():
            return Unauthenticated("a token in X-Auth-Token that has not expired")
        return found.claim

    def look(self) -> None:
        """Read the file again if it changed."""
        self._file.look()

    def reload(self) -> None:
        """Read the file now.

        :raises ConfigError: it cannot be used; the former tokens stay in force.
        """
        self._file.reload()

    def _find(self, given: str) -> KnownToken | None:
        """Compares with all of them, so that the time it takes says nothing."""
        digest = hash_token(given)
        found = None
        for known in self._file.value:
            if hmac.compare_digest(known.hash, digest):
                found = known
        return found


def new_token() -> str:
    """A token that nobody guesses."""
    return "nfw_" + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The token as it stands in the file."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def issue(claim: ClaimedIdentity, until: datetime | None = None) -> tuple[str, str]:
    """A new token for somebody, and its line in the file.

    :raises ConfigError: somebody of that name cannot be written there.
    """
    token = new_token()
    if until is not None and until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return token, render_token(KnownToken(hash=hash_token(token), claim=claim, until=until))


def append_line(path: str, line: str) -> None:
    """Write *line* to the end of the file, which is made for its owner alone if there is none.

    :raises ConfigError: it cannot be written.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(file, "a+", encoding="utf-8") as opened:
            opened.seek(0)
            text = opened.read()
            begin = "" if not text or text.endswith("\n") else "\n"
            opened.write(f"{begin}{line}\n")
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc


def render_token(known: KnownToken) -> str:
    """The line of the file.

    :raises ConfigError: somebody of that name cannot be written there.
    """
    claim = known.claim
    names = (claim.user, claim.project_id or "-", *claim.roles)
    if any(set(name) & set(" ,#") for name in names):
        raise ConfigError("the names of user, project and roles must not have spaces, commas or #")
    until = () if known.until is None else (f"until={known.until.astimezone(UTC).isoformat()}",)
    line = " ".join((known.hash, *names[:2], ",".join(sorted(claim.roles)), *until))
    parse_tokens("the new token", line)
    return line


def parse_tokens(path: str, text: str) -> tuple[KnownToken, ...]:
    """The tokens of a file.

    :raises ConfigError: a line is wrong; what stands in it is not repeated.
    """
    found: dict[str, int] = {}
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            known = _parse_line(words)
            if known.hash in found:
                raise ValueError(f"has the token of line {found[known.hash]}")
        except ValueError as exc:
            raise ConfigError(f"{path}, line {number}: {exc}") from exc
        found[known.hash] = number
        tokens.append(known)
    return tuple(tokens)


def _parse_line(words: list[str]) -> KnownToken:
    if len(words) not in (4, 5):
        raise ValueError("must be HASH USER PROJECT ROLES [until=TIME]")
    hash, user, project, roles = words[:4]
    if not _HASH.fullmatch(hash):
        raise ValueError("the first word must be sha256: and 64 digits, not the token itself")
    names = [user, project, *roles.split(",")]
    if not all(name and len(name) <= LONGEST_NAME and name.isprintable() for name in names):
        raise ValueError(f"user, project and roles must have 1 to {LONGEST_NAME} characters")
    claim = ClaimedIdentity(
        project_id="" if project == "-" else project,
        user=user,
        roles=frozenset(role.lower() for role in roles.split(",")),
    )
    return KnownToken(hash=hash, claim=claim, until=_parse_until(*words[4:]))


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
