"""Listening TCP sockets of a namespace or of a process."""

from __future__ import annotations

import os
import re
from pathlib import Path

from netfw.linux.errno_errors import error_from_errno, is_absence
from netfw.linux.netns import Namespace, run_in
from netfw.linux.sockets.values import Listener, parse_listeners

_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listeners(namespace: Namespace = None) -> frozenset[Listener]:
    """Return the sockets that listen in *namespace*.

    :raises NotFound: there is no such namespace.
    :raises BackendUnavailable: the machine is out of resources.
    """
    return run_in(namespace, _read, "thread-self")


def listeners_of(pid: int) -> frozenset[Listener]:
    """Return the sockets of the process *pid* that listen; none if there is no such process.

    :raises BackendUnavailable: the machine is out of resources.
    :raises BackendBroken: netfw may not inspect that process.
    """
    own = sockets_of(pid)
    return frozenset(each for each in _read(str(pid)) if each.inode in own)


def sockets_of(pid: int) -> frozenset[int]:
    """Return the inodes of all sockets of the process *pid*; none if there is no such process.

    :raises BackendUnavailable: the machine is out of resources.
    :raises BackendBroken: netfw may not inspect that process.
    """
    directory = f"/proc/{pid}/fd"
    found = set()
    try:
        for name in os.listdir(directory):
            if (target := _target(f"{directory}/{name}")) and (match := _SOCKET.match(target)):
                found.add(int(match[1]))
    except OSError as error:
        if not is_absence(error.errno or 0):
            raise error_from_errno(error.errno or 0, f"reading {directory}", str(error)) from error
    return frozenset(found)


def _read(process: str) -> frozenset[Listener]:
    found: set[Listener] = set()
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{process}/net/{table}")
        try:
            found.update(parse_listeners(path.read_text()))
        except OSError as error:
            if not is_absence(error.errno or 0):  # no IPv6 here, or the process has ended
                raise error_from_errno(error.errno or 0, f"reading {path}", str(error)) from error
    return frozenset(found)


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None  # closed meanwhile
