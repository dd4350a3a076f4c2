"""A private netfw server: a process, a directory, sockets in it, for tests of drivers and clients
against a real server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from netfw.errors import BackendBroken
from netfw.http.unix_connection import UnixConnection
from netfw.testing.lab.daemon import PrivateDaemon
from netfw.testing.lab.ini import Groups, ini


class PrivateNetfw(PrivateDaemon):
    """``netfw-server`` in *directory*; the API is on a unix socket there and, with *port*, on TCP.

    *options* are groups of the configuration; they override those of the directory.  *spawn* starts
    it, by default in the namespaces of the caller.  It ends with the ``with`` that started it; what
    it stored stays in the directory.
    """

    def __init__(
        self,
        directory: Path,
        options: Groups | None = None,
        *,
        port: int | None = None,
        arguments: Sequence[str] = (),
        spawn: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> None:
        super().__init__("netfw-server", directory / "server.log", spawn)
        self.directory, self.port = directory, port
        self.socket = directory / "api.sock"
        self.messages = directory / "messages.sock"
        self._options, self._arguments = dict(options or {}), list(arguments)

    @property
    def url(self) -> str:
        """The URL of the API over TCP."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it, and wait until it is ready.

        :raises BackendBroken: it ends instead, or is not ready in time; with its log.
        """
        self.spawn()
        try:
            self.wait_until(self.ready, lambda: "/readyz does not answer with 200")
        except BackendBroken:
            self.kill()
            raise
        return self

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start it, without waiting for it."""
        self.directory.mkdir(exist_ok=True)
        conf = self.directory / "server.conf"
        conf.write_text(self.configuration())
        argv = [self.python, "-m", "netfw.cli.server.main", "--config-file", str(conf)]
        return self.run([*argv, *self._arguments])

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
        connection = UnixConnection(self.socket)
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
