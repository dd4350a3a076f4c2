"""The peer of a connection: process credentials or address."""

from __future__ import annotations

import grp
import ipaddress
import pwd
from collections.abc import Callable, Iterable

from netfw.errors import ConfigError
from netfw.linux.sockets.peer_credentials import PeerCredentials
from netfw.server.api.identity.headers import Environ

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def peer(environ: Environ) -> PeerCredentials | Address | None:
    """Return the process of a unix socket, the address of a TCP connection, or ``None``."""
    credentials = environ.get("netfw.peer_credentials")
    if credentials is not None:
        return PeerCredentials(*credentials)
    try:
        address = ipaddress.ip_address(environ.get("REMOTE_ADDR", "").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def user_ids(names: Iterable[str], option: str) -> frozenset[int]:
    """Return the ids of users.

    :raises ConfigError: a user does not exist.
    """
    return _ids(names, option, "user", lambda name: pwd.getpwnam(name).pw_uid)


def group_ids(names: Iterable[str], option: str) -> frozenset[int]:
    """Return the ids of groups.

    :raises ConfigError: a group does not exist.
    """
    return _ids(names, option, "group", lambda name: grp.getgrnam(name).gr_gid)


def _ids(
    names: Iterable[str], option: str, kind: str, find: Callable[[str], int]
) -> frozenset[int]:
    try:
        return frozenset(int(name) if name.isdecimal() else find(name) for name in names)
    except KeyError as exc:
        raise ConfigError(f"[identity] {option}: {exc.args[0]}; name a {kind} that exists") from exc
