"""An HTTP server on a unix socket, for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.http.listen_sockets import listen_unix
from netfw.http.server import HttpServer, HttpSettings
from netfw.server.api.error_responses import render_json_error
from tests.server.http.http_environment import Handler, Unix, app


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[HttpServer, Path]]]:
    started: list[HttpServer] = []

    def start_server(handler: Handler, **settings: Any) -> tuple[HttpServer, Path]:
        path = tmp_path / f"api{len(started)}.sock"
        server = HttpServer(
            app(handler),
            listen_unix(path),
            HttpSettings(**settings),
            render_error=render_json_error,
        )
        server.start()
        started.append(server)
        return server, path

    yield start_server
    while Unix.opened:
        Unix.opened.pop().close()
    for server in started:
        server.stop(0.1)
