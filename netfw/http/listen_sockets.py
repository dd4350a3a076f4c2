"""Listening sockets of HTTP servers; made before a fork, so that several processes share one."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from netfw.errors import ConfigError

BACKLOG = 512
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[^:\[\]]+)):(?P<port>\d{1,5})")


def parse_address(address: str, *, option: str) -> tuple[str, int]:
    """Return host and port of *address*, the value of *option*.

    :raises ConfigError: it is not an address with a port.
    """
    match = _ADDRESS.fullmatch(address.strip())
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{option}: {address!r} is not like 127.0.0.1:9696 or [::1]:9696")
    return match["six"] or match["four"], int(match["port"])


def listen_unix(path: Path, mode: int = 0o660, *, option: str = "its path") -> socket.socket:
    """Return a socket that listens at *path*, the value of *option*; replace a stale socket.

    A missing directory is made.  Other users may list it only if the socket is open to them, and
    may always pass through: it may be the state_path, below which dnsmasq has its files.

    :raises ConfigError: it cannot be made, or another server listens there.
    """
    _clear(path, option)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o755 if mode & 0o007 else 0o751, parents=True, exist_ok=True)
        former = os.umask(0o777 & ~mode)
        try:
            listening.bind(str(path))
        finally:
            os.umask(former)
        listening.listen(BACKLOG)
    except OSError as exc:
        listening.close()
        raise ConfigError(
            f"nothing can listen on {path}: {exc.strerror or exc}; change {option}"
        ) from exc
    return listening


def removal(path: Path) -> Callable[[], None]:
    """Return a function that removes the socket at *path*, unless another has replaced it."""
    made = socket_identity(path)

    def remove() -> None:
        try:
            if socket_identity(path) == made:
                path.unlink()
        except OSError:
            return  # the next server removes it

    return remove


def socket_identity(path: Path) -> tuple[int, int, int]:
    """Return what identifies a socket; a later one may have the same inode."""
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def listen_tcp(host: str, port: int, *, option: str = "its address") -> socket.socket:
    """Return a socket that listens at an address, the value of *option*; port 0 is any free port.

    :raises ConfigError: it cannot be made.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: without Nagle, the end of a response does not wait for an ACK.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as exc:
        listening.close()
        raise ConfigError(
            f"nothing can listen on {host} port {port}: {exc.strerror or exc}; change {option}"
        ) from exc
    return listening


def _clear(path: Path, option: str) -> None:
    try:
        kind = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(kind):
        raise ConfigError(f"{path} is there, and is no socket: remove it, or change {option}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ConfigError(f"another server serves {path}; stop it first, or change {option}")
