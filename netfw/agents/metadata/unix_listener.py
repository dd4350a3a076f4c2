"""Unix listener: the socket at which the proxies of the host reach the metadata agent."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, Protocol

from netfw.errors import BackendLocked, BackendUnavailable, ConfigError
from netfw.http.listen_sockets import listen_unix, socket_identity
from netfw.http.server import HttpServer, HttpSettings, WsgiApp

LOG = logging.getLogger(__name__)

OPTION: Final = "metadata_proxy_socket"


class SocketLock(Protocol):
    """The lock of a socket; it ends with the process that holds it."""

    def acquire(self) -> None:
        """Acquire it; a held lock stays as it is.

        :raises BackendLocked: another process holds it; the text names its pid.
        :raises OSError: the file cannot be made or opened.
        """
        ...

    def release(self) -> None:
        """Release it.  Idempotent."""
        ...


class UnixListener:
    """Serves an application at a path, which one agent at a time may use.

    A socket that a dead agent left behind is replaced.

    :param lock: the lock of the path; without one, two agents that start at the same time could
        both find the path free.
    """

    def __init__(
        self, app: WsgiApp, path: Path, *, mode: int, settings: HttpSettings, lock: SocketLock
    ) -> None:
        self._app, self.path = app, path
        self._mode, self._settings, self._lock = mode, settings, lock
        self._server: HttpServer | None = None
        self._bound: tuple[int, int, int] | None = None

    def acquire_lock(self) -> None:
        """Acquire the lock of the path; a held lock stays as it is.

        :raises BackendLocked: another agent serves there; the text says which.
        :raises ConfigError: no lock, and so no socket, can be made there.
        """
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._lock.acquire()
        except BackendLocked as exc:
            raise BackendLocked(
                f"another agent serves {self.path} ({exc}): a host has one; to run a second one, "
                f"change its {OPTION}"
            ) from exc
        except OSError as exc:
            raise ConfigError(
                f"no socket can be at {self.path}: {exc.strerror or exc}: "
                f"{exc.filename or self.path.parent}; give its directory, and all files in it, to "
                f"the agent's user, or change {OPTION}"
            ) from exc

    def open(self) -> None:
        """Bind the socket and serve, unless it is bound already.

        :raises BackendLocked: another agent serves there.
        :raises BackendUnavailable: the machine has no thread left; the socket is not bound.
        :raises ConfigError: the socket cannot be made.
        """
        if self.is_bound:
            return
        self.acquire_lock()
        listening = listen_unix(self.path, self._mode, option=OPTION)
        server = HttpServer(self._app, listening, self._settings, name="metadata")
        try:
            server.start()
        except BackendUnavailable:
            listening.close()
            raise
        former, self._server = self._server, server
        self._bound = socket_identity(self.path)
        LOG.info("listening on %s (mode %o)", self.path, self._mode)
        if former is not None:
            former.stop(1.0)

    @property
    def is_bound(self) -> bool:
        """Whether the socket at the path is the one that this listener serves."""
        try:
            return self._bound is not None and socket_identity(self.path) == self._bound
        except OSError:
            return False

    def close(self, grace: float = 5.0) -> None:
        """Finish the requests under way within *grace* seconds; remove the socket and the lock."""
        if self._server is not None and not self._server.stop(grace):
            LOG.warning("%s: requests did not end within %g s", self.path, grace)
        if self.is_bound:
            self.path.unlink(missing_ok=True)
        self._lock.release()
        self._server = self._bound = None
