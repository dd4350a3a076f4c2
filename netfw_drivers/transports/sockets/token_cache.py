"""Cache of a server's token file, which may change while the server runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping

from netfw.errors import ConfigError
from netfw.model.values.text_validation import render_names
from netfw_drivers.transports.sockets.tokens import (
    ANY_HOST,
    Token,
    by_host,
    read_tokens,
    require_tokens,
)

LOG = logging.getLogger(__name__)

_COARSE = 2.0
"""Seconds for which a file may change again without another time: clocks of files are coarse."""

Signature = tuple[int, int, int, int] | None


class TokenCache:
    """The tokens of a file.  While it cannot be read, those of before stay valid.

    Used by one thread.

    :raises ConfigError: the file cannot be used now.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._polled: Signature = None
        self._failed: Signature = None
        self._problem = ""
        self._read_as = self._signature()
        self._tokens = require_tokens(path)
        self._by_host = by_host(self._tokens)
        self._warn_of_wide_tokens()

    def of(self, host: str) -> tuple[Token, ...]:
        """Return the tokens of *host*; a changed file is read again."""
        signature = self._signature()
        if signature != self._failed:
            self._reload(signature, unchanged=False)
        return self._by_host.get(host, ())

    def poll(self) -> Mapping[str, tuple[Token, ...]] | None:
        """Retry a failed read; return the tokens by host, or ``None`` while the file changes.

        A file that is not complete yet revokes nothing: only one that is the same at two polls.
        """
        signature = self._signature()
        unchanged, self._polled = signature == self._polled, signature
        self._reload(signature, unchanged=unchanged)
        return self._by_host if unchanged and signature == self._read_as else None

    def _reload(self, signature: Signature, *, unchanged: bool) -> None:
        is_recent = signature is not None and time.time() - signature[1] / 1e9 < _COARSE
        if signature == self._read_as and not is_recent:
            return
        try:
            tokens = read_tokens(self._path)
            if not tokens and not unchanged:
                raise ConfigError(f"{self._path} has no token")
        except ConfigError as exc:
            self._failed = signature
            if str(exc) != self._problem:
                LOG.error("token_file: %s; the former tokens stay valid until it is read", exc)
            self._problem = str(exc)
            return
        if self._problem:
            LOG.info("token_file: %s is read again", self._path)
        self._read_as, self._failed, self._problem = signature, None, ""
        if tokens != self._tokens:
            self._tokens, self._by_host = tokens, by_host(tokens)
            LOG.info("token_file: %s has %d tokens now", self._path, len(tokens))
            self._warn_of_wide_tokens()

    def _signature(self) -> Signature:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode

    def _warn_of_wide_tokens(self) -> None:
        if ANY_HOST in self._by_host:
            LOG.warning(
                "token_file: %s has a token for every host: one compromised host can act for all "
                "others; write lines of HOST TOKEN SERVICES",
                self._path,
            )
        sharing = _sharing_hosts(self._tokens)
        if sharing:
            LOG.warning(
                "token_file: %s has the same token for hosts %s: each of them can act for the "
                "others; give each host a token of its own",
                self._path,
                render_names(sharing, len(sharing)),
            )
        hosts = sorted({each.host for each in self._tokens if each.services is None})
        if hosts:
            LOG.warning(
                "token_file: %s has tokens that are valid for all services, of host %s; write "
                "HOST TOKEN SERVICES to limit each to the agents of its host",
                self._path,
                render_names(hosts, len(hosts)),
            )


def _sharing_hosts(tokens: tuple[Token, ...]) -> list[str]:
    """Return the hosts that have a token of another host, too."""
    hosts: dict[str, set[str]] = {}
    for token in tokens:
        hosts.setdefault(token.secret, set()).add(token.host)
    return sorted({host for sharing in hosts.values() if len(sharing) > 1 for host in sharing})
