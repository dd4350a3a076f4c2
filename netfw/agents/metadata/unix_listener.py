"""Listener on the unix socket that the host's proxies connect to."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

from netfw.errors import ConfigError
from netfw.http.listen_sockets import listen_unix, socket_identity
from netfw.http.server import HttpServer, HttpSettings, WsgiApp

LOG = logging.getLogger(__name__)

OPTION: Final = "metadata_proxy_socket"


class UnixListener:
    """Serves an application on a unix socket, with a lock against a second agent.

    A stale socket of a dead agent is replaced.
    """

    def __init__(self, app: WsgiApp, path: Path, *, mode: int, settings: HttpSettings) -> None:
        self._app, self.path = app, path
        self._mode, self._settings = mode, settings
        self._lock: int | None = None
        self._server: HttpServer | None = None
        self._identity: tuple[int, int, int] | None = None

    def open(self) -> None:
        """Start to listen; idempotent.

        :raises ConfigError: another agent listens there, or the path cannot be used.
        """
        if self.is_bound:
            return
        if self._lock is None:
            self._lock = _acquire_lock(self.path)
        listening = listen_unix(self.path, self._mode, option=OPTION)
        former, self._server = (
            self._server,
            HttpServer(self._app, listening, self._settings, name="metadata"),
        )
        self._identity = socket_identity(self.path)
        self._server.start()
        LOG.info("listening on %s (mode %o)", self.path, self._mode)
        if former is not None:
            former.stop(1.0)

    @property
    def is_bound(self) -> bool:
        """Whether the path still leads to this listener."""
        try:
            return self._identity is not None and socket_identity(self.path) == self._identity
        except OSError:
            return False

    def close(self, grace: float = 5.0) -> None:
        """Finish requests in progress within *grace* seconds; remove socket and lock."""
        if self._server is not None and not self._server.stop(grace):
            LOG.warning("%s: requests did not end within %g s", self.path, grace)
        if self.is_bound:
            self.path.unlink(missing_ok=True)
        if self._lock is not None:
            _lock_path(self.path).unlink(missing_ok=True)
            os.close(self._lock)
        self._server = self._lock = self._identity = None


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _acquire_lock(path: Path) -> int:
    """Acquire a lock file beside the socket, against two agents that start at the same time."""
    lock = _lock_path(path)
    while True:
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(lock, flags, 0o600)
        except OSError as exc:
            raise ConfigError(
                f"no socket can be at {path}: {exc.strerror or exc}; change {OPTION}"
            ) from exc
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(lock).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError as exc:
            os.close(descriptor)
            raise ConfigError(
                f"another agent serves {path}: stop it first, or change {OPTION}"
            ) from exc
        except FileNotFoundError:
            pass  # the former owner has removed it meanwhile
        os.close(descriptor)
