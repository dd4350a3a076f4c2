"""Tokens: each side proves that it knows one, without sending it.

A file has one token per line: ``TOKEN``, which speaks for every host, or ``HOST TOKEN``.  Lines
that begin with ``#`` are comments.  A client uses the first token of its file.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from netfw.errors import ConfigError
from netfw.linux.fs.token_file import parse_token_file

ANY_HOST = "*"
_LEAST = 16
_MAX_BYTES = 1_000_000


@frozen
class Token:
    """Secret, and the host that it speaks for; ``*``: every host."""

    host: str
    secret: str

    @property
    def speaks_for(self) -> str | None:
        """Host of the token, or ``None`` for every host."""
        return None if self.host == ANY_HOST else self.host


def read_tokens(path: str) -> tuple[Token, ...]:
    """The tokens in a file.

    :raises ConfigError: it cannot be read, or read by others, or has no usable token.
    """
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the tokens in {path} cannot be read: {exc}") from exc
    if mode & 0o007:
        raise ConfigError(f"everybody can read the tokens in {path}: chmod o= {path}")
    return parse_tokens(text, path)


def parse_tokens(text: str, path: str) -> tuple[Token, ...]:
    """The tokens in the *text* of a file.

    :raises ConfigError: a line is no token, a host has two, or there is none at all.
    """
    tokens = parse_token_file(text, path, _parse_line, key="host")
    if not tokens:
        raise ConfigError(f"{path} has no token: `openssl rand -hex 32` makes one")
    return tokens


def _parse_line(words: list[str]) -> tuple[str, Token]:
    if len(words) > 2 or len(words[-1]) < _LEAST:
        raise ValueError(f"write a token of at least {_LEAST} characters, or a host and its token")
    host = words[0] if len(words) == 2 else ANY_HOST
    return host, Token(host, words[-1])


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


def by_host(tokens: tuple[Token, ...]) -> Mapping[str, Token]:
    """Return the tokens by host."""
    return {token.host: token for token in tokens}


def dummy_token() -> Token:
    """Return a random token, so that a check for an unknown host takes as long as for others."""
    return Token("", secrets.token_hex(16))
