"""Control socket of ``ovs-vswitchd``: commands that neither OpenFlow nor OVSDB has.

``ovs.unixctl.client`` waits for a reply without a limit: a switch that hangs would stop an agent.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

from netfw.errors import BackendUnavailable
from netfw.ovs.ovsdb.json_stream import JsonStream

_DAEMON = "ovs-vswitchd"
_CHUNK = 1 << 16


class ControlSocket:
    """Commands to the ``ovs-vswitchd`` whose sockets and PID file are in *directory*."""

    def __init__(self, directory: Path, timeout: float = 10.0) -> None:
        self._directory = directory
        self._timeout = timeout

    def command(self, method: str, *arguments: str) -> str:
        """Execute a command as ``ovs-appctl`` does; return its output.

        :raises BackendUnavailable: the switch did not execute it; the message says why.
        """
        try:
            reply = self._request(method, arguments)
        except (OSError, ValueError) as error:
            raise BackendUnavailable(f"{self._directory}: {method}: {error}") from error
        if reply.get("error") is not None:
            raise BackendUnavailable(f"{self._directory}: {method}: {reply['error']}")
        return str(reply.get("result") or "")

    def _request(self, method: str, arguments: tuple[str, ...]) -> dict[str, object]:
        pid = int((self._directory / f"{_DAEMON}.pid").read_text())
        deadline = time.monotonic() + self._timeout
        stream = JsonStream()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(self._timeout)
            connection.connect(str(self._directory / f"{_DAEMON}.{pid}.ctl"))
            request = {"id": 0, "method": method, "params": arguments}
            connection.sendall(json.dumps(request).encode())
            while (reply := stream.take()) is None:
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                data = connection.recv(_CHUNK)
                if not data:
                    raise ConnectionError("the switch closed the connection")
                stream.feed(data)
        return reply
