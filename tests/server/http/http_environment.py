"""An application, and a client of its HTTP server on a unix socket."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

Handler = Callable[[dict[str, Any]], bytes]


def app(handler: Handler) -> Any:
    def wsgi(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        data = handler(environ)
        start("200 OK", [("Content-Length", str(len(data)))])
        return [data]

    return wsgi


class Unix(http.client.HTTPConnection):
    opened: ClassVar[list[Unix]] = []

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path
        self.opened.append(self)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))


def ask(path: Path, method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
    connection = Unix(path)
    connection.request(method, "/", body or None)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data
