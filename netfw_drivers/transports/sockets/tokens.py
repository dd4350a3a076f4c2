"""Tokens: each side proves that it knows one, without sending it.

A line of a file is ``TOKEN``, valid for every host, ``HOST TOKEN``, or ``HOST TOKEN SERVICES`` with
commas between the services.  Lines that begin with ``#`` are comments.  A host may have several
tokens: one for each agent, or an old and a new one.  A client uses the first token of its file.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from netfw.drivers.values.subscription import Service
from netfw.errors import ConfigError, nearest
from netfw.linux.fs.token_file import parse_token_file

ANY_HOST = "*"
_LEAST = 16
_MAX_BYTES = 1_000_000
_PER_HOST = 8
"""Tokens of one host at most: a proof is compared with all of them."""
_NAMED = {each.value: each for each in Service if each is not Service.POPULATION}


@frozen
class Token:
    """Secret, and the host and services that it is valid for."""

    host: str
    """``*``: every host."""
    secret: str
    services: frozenset[Service] | None = None
    """``None``: all."""

    @property
    def speaks_for(self) -> str | None:
        """Host of the token, or ``None`` for every host."""
        return None if self.host == ANY_HOST else self.host


def read_tokens(path: str) -> tuple[Token, ...]:
    """Read the tokens in a file.

    :raises ConfigError: it cannot be read, others can read it, or it has a wrong line.
    """
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MAX_BYTES).decode()
    except FileNotFoundError as exc:
        raise ConfigError(
            f"the tokens in {path} cannot be read: there is no such file; write lines of HOST "
            "TOKEN SERVICES into it, with tokens of `openssl rand -hex 32`"
        ) from exc
    except OSError as exc:
        raise ConfigError(
            f"the tokens in {path} cannot be read by user {os.geteuid()}: {exc.strerror}"
        ) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the tokens in {path} cannot be read: {exc}") from exc
    if mode & 0o007:
        raise ConfigError(f"other users can read the tokens in {path}: chmod o= {path}")
    return parse_tokens(text, path)


def require_tokens(path: str) -> tuple[Token, ...]:
    """Read the tokens in a file, one at least.

    :raises ConfigError: it cannot be used, or has none.
    """
    tokens = read_tokens(path)
    if not tokens:
        raise ConfigError(f"{path} has no token: `openssl rand -hex 32` makes one")
    return tokens


def parse_tokens(text: str, path: str) -> tuple[Token, ...]:
    """Parse the tokens in the *text* of a file.

    :raises ConfigError: a line is no token, is there twice, or a host has too many.
    """
    tokens = parse_token_file(text, path, _parse_line, key="host and token")
    for host, count in Counter(token.host for token in tokens).items():
        if count > _PER_HOST:
            raise ConfigError(f"{path}: host {host} has {count} tokens, {_PER_HOST} is the limit")
    return tokens


def _parse_line(words: list[str]) -> tuple[str, Token]:
    host, secret, *services = words if len(words) > 1 else (ANY_HOST, *words)
    if len(secret) < _LEAST or len(services) > 1:
        raise ValueError(
            f"write HOST TOKEN SERVICES: the token has at least {_LEAST} characters, and the "
            "services have commas and no spaces between them"
        )
    return f"{host} {secret}", Token(host, secret, _services(services[0]) if services else None)


def _services(text: str) -> frozenset[Service]:
    """Return the named services; ``l2`` includes ``population``.

    :raises ValueError: a word is no service.  One that is as long as a secret is not quoted.
    """
    found = set()
    for name in text.split(","):
        if name not in _NAMED:
            quoted = f"{name!r} is" if len(name) < _LEAST else "the third word names"
            known = ", ".join(sorted(_NAMED))
            raise ValueError(f"{quoted} no service ({known}){nearest(name, _NAMED)}")
        found.add(_NAMED[name])
    return frozenset(found | {Service.POPULATION} if Service.L2 in found else found)


def nonce() -> str:
    """Return a fresh nonce."""
    return secrets.token_hex(16)


def proof(token: Token, who: str, server_nonce: str, client_nonce: str) -> str:
    """Compute the proof of knowing *token*; *who* is ``client`` or ``server``."""
    message = f"netfw {who} {server_nonce} {client_nonce} {token.host}".encode()
    return hmac.digest(token.secret.encode(), message, "sha256").hex()


def proves(given: str, token: Token, who: str, server_nonce: str, client_nonce: str) -> bool:
    """Return whether *given* is that proof; compares in constant time."""
    expected = proof(token, who, server_nonce, client_nonce)
    return hmac.compare_digest(expected.encode(), given.encode())


def find_proven(
    given: str, tokens: tuple[Token, ...], server_nonce: str, nonce: str
) -> Token | None:
    """Return the token that *given* is the client's proof of.

    An unknown host takes as long as one with one token.
    """
    found = None
    for token in tokens or (_dummy_token(),):
        if proves(given, token, "client", server_nonce, nonce) and tokens:
            found = token
    return found


def by_host(tokens: tuple[Token, ...]) -> Mapping[str, tuple[Token, ...]]:
    """Return the tokens by host."""
    found: dict[str, tuple[Token, ...]] = {}
    for token in tokens:
        found[token.host] = (*found.get(token.host, ()), token)
    return found


def _dummy_token() -> Token:
    """Return a random token, so that a check for an unknown host takes as long as for others."""
    return Token("", secrets.token_hex(16))
