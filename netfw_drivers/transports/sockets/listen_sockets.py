"""Sockets that listen: who has one, has the address."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from netfw.errors import BackendBroken, ConfigError, Conflict
from netfw.linux.fs.lock_file import LockFile, LockHeld
from netfw_drivers.transports.sockets.address import Address, OpenSocket, TcpAddress, UnixAddress
from netfw_drivers.transports.sockets.options import Settings, check_listening

_BACKLOG = 4096
"""All agents of a large cloud may come at once, after a restart."""


class ListenSocket:
    """An open socket that listens, and whether what comes through it speaks TLS."""

    def __init__(self, opened: socket.socket, name: str, *, tls: bool = False) -> None:
        opened.setblocking(False)
        self.socket, self.name, self.tls = opened, name, tls

    @property
    def is_unix(self) -> bool:
        """Whether the kernel says who connects."""
        return self.socket.family == socket.AF_UNIX

    def close(self) -> None:
        """Let go of the address.  Twice is once."""
        self.socket.close()


class UnixListening(ListenSocket):
    """A socket in the file system, which is removed when it is closed by who made it.

    A lock beside it, held as long as it is open, tells a living server from what one left behind.
    """

    def __init__(self, address: UnixAddress, mode: int) -> None:
        self._path, self._maker = address.path, os.getpid()
        self._lock = _lock_beside(address.path)
        try:
            opened = _bind_unix(address.path, mode)
        except BaseException:
            self._lock.release()
            raise
        self._inode = os.stat(address.path).st_ino
        super().__init__(opened, str(address))

    def close(self) -> None:
        if self.socket.fileno() >= 0 and os.getpid() == self._maker:
            with suppress(FileNotFoundError):
                if os.stat(self._path).st_ino == self._inode:
                    os.unlink(self._path)
            self._lock.release()
        super().close()


def open_listening(address: Address, settings: Settings) -> ListenSocket:
    """Listen at *address*.

    :raises Conflict: somebody else listens there.
    :raises BackendBroken: this process cannot listen there; says what to do.
    """
    try:
        if isinstance(address, OpenSocket):
            return _inherited(address, settings)
        if isinstance(address, UnixAddress):
            mode = 0o755 if settings.socket_mode & 0o007 else 0o751
            Path(address.path).parent.mkdir(mode=mode, parents=True, exist_ok=True)
            return UnixListening(address, settings.socket_mode)
        return ListenSocket(_bind_tcp(address), str(address), tls=address.tls)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise Conflict(
                f"{address} is taken: stop who listens there, or change [socket] listen"
            ) from exc
        raise BackendBroken(
            f"cannot listen at {address}: {exc}; change [socket] listen, or rights"
        ) from exc


def _bind_tcp(address: TcpAddress) -> socket.socket:
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, where = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(where)
        opened.listen(_BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def _bind_unix(path: str, mode: int) -> socket.socket:
    _clear_away(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.bind(path)
        os.chmod(path, mode)  # nobody can connect before it listens
        opened.listen(_BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def _clear_away(path: str) -> None:
    """Remove a socket that nobody listens on; the lock is held."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise Conflict(f"{path} is there and is no socket: remove it, or change [socket] listen")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise Conflict(
                f"unix:{path} is taken: another process listens there; stop it, or change "
                "[socket] listen"
            )
    os.unlink(path)


def _inherited(address: OpenSocket, settings: Settings) -> ListenSocket:
    try:
        opened = socket.socket(fileno=os.dup(address.descriptor))
    except OSError as exc:
        raise ConfigError(f"{address} is no open socket: {exc}") from exc
    try:
        if not opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise ConfigError(f"{address} does not listen")
        if opened.family == socket.AF_UNIX:
            return ListenSocket(opened, f"unix:{opened.getsockname()}")
        host, port = opened.getsockname()[:2]
        meant = TcpAddress(host, port, settings.tls.certificate is not None)
        check_listening(meant, settings)
        return ListenSocket(opened, str(meant), tls=meant.tls)
    except BaseException:
        opened.close()
        raise


def _lock_beside(path: str) -> LockFile:
    """Acquire the lock of the socket at *path*.

    :raises Conflict: another process serves there.
    """
    lock = LockFile(Path(f"{path}.lock"))
    try:
        lock.acquire()
    except LockHeld as exc:
        raise Conflict(
            f"{path} is taken: process {exc.holder or '(unknown)'} serves there; stop it, or "
            "change [socket] listen"
        ) from exc
    return lock


def open_all(settings: Settings) -> list[ListenSocket]:
    """Listen at every address, or at none.

    :raises Conflict: somebody else listens at one.
    :raises BackendBroken: this process cannot listen at one.
    """
    opened: list[ListenSocket] = []
    try:
        for address in settings.listen:
            opened += [open_listening(address, settings)]
    except BaseException:
        for each in opened:
            each.close()
        raise
    return opened
