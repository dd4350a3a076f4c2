"""Authentication of peers by the kernel, TLS or tokens."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netfw.drivers.transport import Caller
from netfw.errors import ConfigError
from netfw.linux.sockets.peer_credentials import read_peer_credentials, read_peer_groups
from netfw_drivers.transports.sockets.options import Settings, Tls
from netfw_drivers.transports.sockets.token_cache import TokenCache
from netfw_drivers.transports.sockets.tokens import Token


class AccessDenied(Exception):
    """The peer may not connect; the text says why."""


def describe_peer(connection: socket.socket) -> str:
    """Describe the peer for the log."""
    if connection.family == socket.AF_UNIX:
        peer = read_peer_credentials(connection)
        return f"process {peer.pid} of user {peer.uid}"
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return "a disconnected peer"
    return f"{host} port {port}"


class PeerAuthenticator:
    """Authenticates peers on unix sockets, and caches the tokens.

    :raises ConfigError: a user or group does not exist, or the tokens cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        named = settings.users or settings.groups
        self._users = {_user(name) for name in settings.users} if named else {0, os.geteuid()}
        self._groups = {_group(name) for name in settings.groups}
        try:
            self._cache = TokenCache(settings.token_file) if settings.token_file else None
        except ConfigError as exc:
            raise ConfigError(f"[socket] token_file: {exc}") from exc

    def unix_caller(self, connection: socket.socket) -> Caller:
        """Return the peer of a unix socket.

        :raises AccessDenied: it may not connect.
        """
        peer = read_peer_credentials(connection)
        groups = {peer.gid, *read_peer_groups(connection)}
        if peer.uid not in self._users and self._groups.isdisjoint(groups):
            raise AccessDenied(
                f"user {peer.uid} is not allowed: see allowed_users and allowed_groups of the "
                "server"
            )
        return Caller(f"uid:{peer.uid}")

    def tokens_of(self, host: str) -> tuple[Token, ...]:
        """Return the tokens of *host*; a changed file is read again."""
        return () if self._cache is None else self._cache.of(host)

    def poll_tokens(self) -> Mapping[str, tuple[Token, ...]] | None:
        """Read the tokens again if needed; ``None``: there is no file, or it changes now."""
        return None if self._cache is None else self._cache.poll()


def certified_caller(certificate: Mapping[str, Any], *, names_host: bool) -> Caller:
    """Return the subject of a certificate, which TLS has verified.

    :raises AccessDenied: it has no name.
    """
    alternatives = [name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"]
    common = [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    names = [*alternatives, *common]
    if not names:
        raise AccessDenied("its certificate has neither a common name nor a DNS name")
    return Caller(f"certificate:{names[0]}", names[0] if names_host else None)


def server_context(tls: Tls) -> ssl.SSLContext:
    """Build the TLS context of a server.

    :raises ConfigError: a file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, tls)
    if tls.authorities:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def check_client_files(tls: Tls) -> None:
    """Read the TLS files of a client.

    :raises ConfigError: a file cannot be read.
    """
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tls)


def client_context(tls: Tls) -> ssl.SSLContext:
    """Build the TLS context of a client, which verifies the server's name.

    :raises ConfigError: a file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not tls.authorities:
        context.load_default_certs()
    _load(context, tls)
    return context


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    paths = {"tls_ca": tls.authorities, "tls_certificate": tls.certificate, "tls_key": tls.key}
    for option, path in paths.items():
        with _named(option):
            if path:
                Path(path).open("rb").close()  # the errors of ssl name no file
    if tls.authorities:
        with _named("tls_ca", f"; see that {tls.authorities} has certificates in PEM"):
            context.load_verify_locations(tls.authorities)
    if tls.certificate:
        with _named("tls_certificate and tls_key", "; see that they are PEM and belong together"):
            context.load_cert_chain(tls.certificate, tls.key)


@contextmanager
def _named(option: str, advice: str = "") -> Iterator[None]:
    """Translate errors of files to ``ConfigError``, which names *option*."""
    try:
        yield
    except OSError as exc:  # ssl.SSLError is one
        raise ConfigError(f"[socket] {option}: {exc}{advice}") from exc


def _user(name: str) -> int:
    try:
        return int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError as exc:
        raise ConfigError(f"[socket] allowed_users: there is no user {name!r}") from exc


def _group(name: str) -> int:
    try:
        return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError as exc:
        raise ConfigError(f"[socket] allowed_groups: there is no group {name!r}") from exc
