"""A private netfw server: a process, a directory, sockets in it, for tests of drivers and clients
against a real server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from netfw.errors import BackendBroken
from netfw.testing.lab.ini import Groups, ini

START_SECONDS = 60.0
END_SECONDS = 30.0


class PrivateNetfw:
    """``netfw-server`` in *directory*; the API is on a unix socket there and, with *port*, on TCP.

    *options* are groups of the configuration; they override those of the directory.  It ends with
    the ``with`` that started it; what it stored stays in the directory.
    """

    def __init__(
        self,
        directory: Path,
        options: Groups | None = None,
        *,
        port: int | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.directory, self.port = directory, port
        self.socket = directory / "api.sock"
        self.messages = directory / "messages.sock"
        self._options, self._arguments = dict(options or {}), list(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the API over TCP."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Its log."""
        return self.directory / "server.log"

    @property
    def pid(self) -> int:
        """The id of the process that was started."""
        if self._process is None:
            raise BackendBroken("the server is not running")
        return self._process.pid

    def start(self) -> Self:
        """Start it, and wait until it is ready.

        :raises BackendBroken: it ends instead, or is not ready in time; with its log.
        """
        process = self.begin()
        deadline = time.monotonic() + START_SECONDS
        while not self.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                log_tail = self.log.read_text(errors="replace")[-3000:]
                raise BackendBroken(f"netfw-server does not start: {log_tail}")
            time.sleep(0.02)
        return self

    def begin(self) -> subprocess.Popen[bytes]:
        """Start it, without waiting for it."""
        self.directory.mkdir(exist_ok=True)
        conf = self.directory / "server.conf"
        conf.write_text(self.configuration())
        argv = [sys.executable, "-m", "netfw.cli.server.main", "--config-file", str(conf)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*argv, *self._arguments], stdout=log, stderr=subprocess.STDOUT
            )
        return self._process

    def stop(self) -> int:
        """Stop it, and wait; return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Kill it, as a crash would."""
        return self._end(signal.SIGKILL)

    def reload(self) -> None:
        """Make it reload its files."""
        os.kill(self.pid, signal.SIGHUP)

    def ready(self) -> bool:
        """Return whether it reports that it can serve."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a request over the unix socket; return the status, and the body if it is JSON."""
        connection = _UnixConnection(self.socket)
        try:
            content = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, content, {**kind, **(headers or {})})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(data)
        except ValueError:
            return answer.status, data.decode(errors="replace")

    def configuration(self) -> str:
        """Return the configuration file that it is started with."""
        bind = "" if self.port is None else f"127.0.0.1:{self.port}"
        groups: dict[str, dict[str, object]] = {
            "DEFAULT": {"state_path": self.directory},
            "api": {"socket": self.socket, "bind": bind},
            "identity": {"noauth_on_loopback": self.port is not None},
            "socket": {"listen": f"unix:{self.messages}"},
        }
        for group, values in self._options.items():
            groups.setdefault(group, {}).update(values)
        return ini(groups)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BackendBroken(f"netfw-server did not end in {END_SECONDS:g} s: killed") from None


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
