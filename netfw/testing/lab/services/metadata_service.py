"""A private metadata service, as a compute service has one: signed ids identify instances.

``python -m netfw.testing.lab.services.metadata_service PORT SECRET RECORD`` answers on loopback
with the id and the address of the client, refuses a wrong signature, and appends every request to
RECORD.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from netfw.errors import BackendBroken
from netfw.testing.lab.host import Host

START_SECONDS = 120.0


class MetadataService:
    """The service on the loopback of *host*; it ends with the host, or by `stop`."""

    def __init__(self, host: Host, directory: Path, secret: str, port: int = 8775) -> None:
        self.host, self.port, self.secret = host, port, secret
        self._record = directory / "metadata-requests.json"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers.

        :raises BackendBroken: it does not.
        """
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self._record.touch()
        before = len(self.requests())
        words = [str(self.port), self.secret, str(self._record)]
        self._process = self.host.spawn([sys.executable, "-m", __name__, *words])
        deadline = time.monotonic() + START_SECONDS
        while len(self.requests()) == before:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise BackendBroken(f"the metadata service does not begin on {self.host.name}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests so far: path and headers; each start of the service adds one too."""
        return [json.loads(line) for line in self._record.read_text().splitlines()]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    secret: bytes
    record: Path

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.record.open("a") as record:
            record.write(json.dumps({"path": self.path, "headers": headers}) + "\n")
        instance = headers.get("x-instance-id", "")
        wanted = hmac.new(self.secret, instance.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted, headers.get("x-instance-id-signature", "")):
            return self._answer(403, "the signature is not that of the instance\n")
        return self._answer(200, f"{instance} {headers.get('x-forwarded-for')}\n")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the record has every request."""


def main(port: str, secret: str, record: str) -> None:
    """Serve until killed."""
    handler = type("Handler", (_Handler,), {"secret": secret.encode(), "record": Path(record)})
    with ThreadingHTTPServer(("127.0.0.1", int(port)), handler) as server:
        with Path(record).open("a") as file:
            file.write(json.dumps({"path": "begun", "headers": {}}) + "\n")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
