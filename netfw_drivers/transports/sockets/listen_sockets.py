"""Listen sockets, with locks on the paths of unix sockets."""

from __future__ import annotations

import asyncio
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
"""After a restart, all agents of a large cloud may connect at once."""


class ListenSocket:
    """Open listen socket, and whether its connections use TLS."""

    def __init__(self, opened: socket.socket, name: str, *, tls: bool = False) -> None:
        opened.setblocking(False)
        self.socket, self.name, self.tls = opened, name, tls

    @property
    def is_unix(self) -> bool:
        """Whether the kernel provides peer credentials."""
        return self.socket.family == socket.AF_UNIX

    async def accept(self) -> socket.socket:
        """Accept a connection.  Cancelled, it has accepted none.

        The loop's own ``sock_accept`` loses a connection if it is cancelled just after.

        :raises OSError: no descriptors are left, or the peer has gone already.
        """
        while True:
            await self._readable()
            with suppress(BlockingIOError):  # another process that shares the socket was faster
                client, _ = self.socket.accept()
                client.setblocking(False)
                return client

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self.socket, _set_done, readable)
        try:
            await readable
        finally:
            loop.remove_reader(self.socket)

    def close(self) -> None:
        """Close the socket.  Idempotent."""
        self.socket.close()


def _set_done(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


class UnixListenSocket(ListenSocket):
    """Unix socket; the process that created it removes its path on close.

    A lock file beside it, held while it is open, distinguishes a running server from a stale path.
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


def open_listen_socket(address: Address, settings: Settings) -> ListenSocket:
    """Open a listen socket at *address*.

    :raises Conflict: another process listens there.
    :raises BackendBroken: this process cannot listen there; says what to do.
    """
    try:
        if isinstance(address, OpenSocket):
            return _inherited(address, settings)
        if isinstance(address, UnixAddress):
            mode = 0o755 if settings.socket_mode & 0o007 else 0o751
            Path(address.path).parent.mkdir(mode=mode, parents=True, exist_ok=True)
            return UnixListenSocket(address, settings.socket_mode)
        return ListenSocket(_bind_tcp(address), str(address), tls=address.tls)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise Conflict(
                f"{address} is taken: stop the process there, or change [socket] listen"
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
    _remove_stale(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.bind(path)
        os.chmod(path, mode)  # no client can connect before listen()
        opened.listen(_BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def _remove_stale(path: str) -> None:
    """Remove a socket without a listener; the caller holds the lock."""
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


def open_listen_sockets(settings: Settings) -> list[ListenSocket]:
    """Open a listen socket at every address, or at none.

    :raises Conflict: another process listens at one.
    :raises BackendBroken: this process cannot listen at one.
    """
    opened: list[ListenSocket] = []
    try:
        for address in settings.listen:
            opened += [open_listen_socket(address, settings)]
    except BaseException:
        for each in opened:
            each.close()
        raise
    return opened
