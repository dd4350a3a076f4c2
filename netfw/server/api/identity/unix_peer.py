"""The peer of a connection: process credentials or address."""

from __future__ import annotations

import grp
import ipaddress
import os
import pwd
from collections.abc import Callable, Iterable

from attrs import frozen

from netfw.errors import ConfigError
from netfw.server.api.identity.headers import Environ

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@frozen
class PeerCredentials:
    """A process of this machine, identified by its unix socket."""

    pid: int
    uid: int
    gid: int

    def groups(self) -> frozenset[int]:
        """Return the group of the process and the groups of its user.

        The latter come from the user database: the groups of the process itself could only be read
        by its pid, which may have been reused.
        """
        try:
            name = pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return frozenset({self.gid})
        return frozenset({self.gid, *os.getgrouplist(name, self.gid)})


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
