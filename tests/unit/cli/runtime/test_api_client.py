"""The API client of commands, on answers that are no list or resource."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from netfw.cli.runtime.api_client import ApiClient, configured_api
from netfw.errors import BackendUnavailable, ConfigError, Forbidden, NotFound

ANSWERS = {
    "ports": (200, b'{"ports": [{"id": "1"}, {"id": "2"}], "ports_links": []}'),
    "empty": (200, b'{"empty": []}'),
    "secret": (403, b"{}"),
    "unknown": (401, b"{}"),
    "broken": (500, b"<html>"),
    "text": (200, b"hello"),
    "odd": (200, b'{"a": 1}'),
}


class Answers(BaseHTTPRequestHandler):
    """Answers by the first word of the path."""

    def do_GET(self) -> None:
        word = self.path.removeprefix("/v2.0/").partition("?")[0].partition("/")[0]
        status, data = ANSWERS.get(word, (404, b""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def api() -> Iterator[ApiClient]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield ApiClient(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


def test_lists_and_missing_resources(api: ApiClient) -> None:
    assert [each["id"] for each in api.list("ports", host="h")] == ["1", "2"]
    assert api.show("nothing", "1") is None


def test_name_must_be_unique_and_exist(api: ApiClient) -> None:
    with pytest.raises(NotFound, match=r"^several of the ports at \S+ are called 'web': "):
        api.find("ports", "web")
    with pytest.raises(NotFound, match=r"^none of the empty at \S+ is called 'web': "):
        api.find("empty", "web")


@pytest.mark.parametrize("path", ["broken", "text", "odd"])
def test_answers_of_something_else_are_errors(api: ApiClient, path: str) -> None:
    with pytest.raises(BackendUnavailable):
        api.list(path)


def test_refusals_say_what_to_do(api: ApiClient) -> None:
    with pytest.raises(Forbidden, match="OS_TOKEN"):
        api.list("unknown")
    with pytest.raises(Forbidden, match="not allowed"):
        api.list("secret")


def test_server_that_does_not_exist_is_named() -> None:
    with pytest.raises(BackendUnavailable, match="/no/such does not answer"):
        ApiClient("unix:/no/such").list("ports")


@pytest.mark.parametrize("address", ["ftp://x", "unix:", "/run/api.sock", "https://"])
def test_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="unix:PATH, or a URL"):
        configured_api(address)
