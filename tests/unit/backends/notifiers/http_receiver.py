"""An outside party: a real HTTP server that remembers what it was told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Party:
    """What came, and what to answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, str]] = []
        """To be given in turn; when there are none, 200."""
        self.slow = 0.0
        self.ended = threading.Event()
        self.url = ""

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]


@contextmanager
def listening() -> Iterator[Party]:
    """Yield a party that listens on the loopback interface."""
    party = Party()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            party.ended.wait(party.slow)
            party.requests.append((self.path, dict(self.headers.items()), body))
            status, text = party.answers.pop(0) if party.answers else (200, "{}")
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", party.url + "/elsewhere")
            self.send_header("Content-Length", str(len(text)))
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked waits no longer
                self.end_headers()
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    party.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield party
    finally:
        party.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
