"""A receiver of OTLP over HTTP: what a collector of OpenTelemetry is to an exporter.

It keeps what it receives in a file, so that it can run on a host of the lab:
``python -m tests.unit.cli.runtime.otlp_receiver PORT FILE``.
"""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from attrs import frozen
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@frozen(kw_only=True)
class ReceivedSpan:
    """A span, as it came over the wire."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    """Traces that it is linked to."""
    attributes: Mapping[str, str | int]


class OtlpReceiver:
    """Spans that were sent to ``url``, and stored at *path*."""

    def __init__(self, port: int, path: Path) -> None:
        self.url, self._path = f"http://127.0.0.1:{port}/v1/traces", path

    def spans(self, name: str = "") -> list[ReceivedSpan]:
        """Return the spans of that name, or all."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        requests = (ExportTraceServiceRequest.FromString(bytes.fromhex(each)) for each in lines)
        found = (span for request in requests for span in _read(request))
        return [span for span in found if name in ("", span.name)]


def _read(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    service=named["service.name"],
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    links=tuple(link.trace_id.hex() for link in span.links),
                    attributes={
                        each.key: each.value.string_value or each.value.int_value
                        for each in span.attributes
                    },
                )


def make_server(port: int, path: Path) -> ThreadingHTTPServer:
    """Return a server that appends each export to *path*, as a line of hexadecimal digits."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            with lock, path.open("a") as file:
                file.write(f"{data.hex()}\n")
            body = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


@contextmanager
def otlp_receiver(path: Path) -> Iterator[OtlpReceiver]:
    """Receive spans on a free port of loopback."""
    server = make_server(0, path)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield OtlpReceiver(server.server_address[1], path)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    make_server(int(sys.argv[1]), Path(sys.argv[2])).serve_forever()
