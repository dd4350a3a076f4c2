"""Health check: a file with the time at which a worker of the agent last answered.

The agent sends a request to its own socket, like any proxy; the worker that handles it writes the
file.  So the file is also stale when all worker threads hang.
"""

from __future__ import annotations

import http.client
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from netfw.agents.metadata.proxy_app import PROBE
from netfw.drivers.support.daemon_thread import start_daemon_thread

LOG = logging.getLogger(__name__)

_JOIN_SECONDS = 1.0
"""Seconds that `close` waits for a probe in progress."""


class HealthProbe:
    """Updates the file while requests at the socket are answered.

    *interval* returns the seconds between probes, and is read each time; 0: no file.
    """

    def __init__(self, file: Path, socket_path: Path, interval: Callable[[], float]) -> None:
        self._file, self._socket_path, self._interval = file, socket_path, interval
        self.token = secrets.token_hex(16)
        """Secret in the probe request, which a guest cannot guess."""
        self.problem = ""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the probe thread; idempotent.

        :raises BackendUnavailable: the machine has no thread left.
        """
        if self._thread is None and not self._stopped.is_set():
            self._thread = start_daemon_thread("netfw-health", "the health check", self._run)

    def close(self) -> None:
        """Stop, and remove the file."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._file.unlink(missing_ok=True)

    def write(self) -> None:
        """Write the current time to the file; called by a worker."""
        if self._stopped.is_set():
            return
        temporary = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(f"{datetime.now(UTC).isoformat(timespec='milliseconds')}\n")
            temporary.replace(self._file)
        except OSError as exc:
            self._report(f"the file cannot be written: {exc}")
        else:
            self._report("")

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            interval = self._interval()
            if interval:
                self._probe(interval)
            pause = interval or 1.0

    def _probe(self, timeout: float) -> None:
        """Have a worker write the file, if one is free within *timeout* seconds."""
        connection = http.client.HTTPConnection("netfw")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(max(1.0, timeout))
                sock.connect(str(self._socket_path))
                connection.sock = sock
                connection.request("GET", "/", headers={PROBE: self.token, "Connection": "close"})
                status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as exc:
            self._report(f"no answer at the socket: {exc}")
        else:
            if status == http.client.SERVICE_UNAVAILABLE:
                self._report("all workers are busy")

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            LOG.warning("health check: %s", problem or "recovered")
        self.problem = problem
