"""Peer credentials of unix sockets (SO_PEERCRED, SO_PEERGROUPS), as the kernel reports them."""

from __future__ import annotations

import os
import pwd
import socket
import struct

from attrs import frozen

_UCRED = struct.Struct("3i")
_SO_PEERGROUPS = 59
"""Linux's option, which Python does not name."""
_MAX_GROUPS = 256


@frozen
class PeerCredentials:
    """The process that connected to a unix socket, at the time it did."""

    pid: int
    uid: int
    gid: int

    def groups(self) -> frozenset[int]:
        """Return the gid, and the groups of which the user is a member.

        The latter are read from the user database: those of the process itself could be read only
        by its pid, which may belong to another process by now.
        """
        try:
            name = pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return frozenset({self.gid})
        return frozenset({self.gid, *os.getgrouplist(name, self.gid)})


def read_peer_credentials(connection: socket.socket) -> PeerCredentials:
    """Read the credentials of the process at the other end of a unix socket.

    A socket of another family has pid 0, and -1 as uid and gid.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return PeerCredentials(*_UCRED.unpack(raw))


def read_peer_groups(connection: socket.socket) -> frozenset[int]:
    """Read the supplementary groups of the process at the other end of a unix socket.

    They are empty on an old kernel, and for a process of more than 256 groups.
    """
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MAX_GROUPS)
    except OSError:
        return frozenset()
    return frozenset(struct.unpack(f"{len(raw) // 4}I", raw))
