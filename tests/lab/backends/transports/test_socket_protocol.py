"""Clients and servers whose protocol versions differ."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from netfw.errors import BackendUnavailable
from netfw_drivers.transports.sockets.framing import encode
from tests.lab.backends.transports.raw_client import LONG, Callers, eventually, request, token_file

WELCOME = {"kind": "welcome", "proof": "", "limit": 1 << 20}
PROVE = {"kind": "prove", "nonce": "11" * 16}
TOKEN = "0123456789abcdef" * 3
DIFFERENT = "the server has version 3 of the socket protocol and this client version 2"


@contextmanager
def greeting_server(listening: socket.socket, greeting: dict[str, Any]) -> Iterator[list[bytes]]:
    """Send *greeting* to each client, and collect what the clients send."""
    received: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):  # the listen socket is shut down
            while True:
                connection, _ = listening.accept()
                with connection, suppress(ConnectionError):
                    connection.sendall(encode(greeting))
                    while data := connection.recv(65536):
                        received.append(data)

    thread = threading.Thread(target=serve)
    thread.start()
    with listening:
        yield received
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def listen_unix(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen()
    return listening


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ({"protocol": 3}, DIFFERENT),
        ({"protocol": "2"}, "version '2' of the socket protocol"),
        ({}, "version None of the socket protocol"),
    ],
)
def test_server_of_another_protocol_version_is_refused(here, transport, protocol, reason, caplog):
    with greeting_server(listen_unix(here / "s"), WELCOME | protocol) as received:
        client = transport(connect=f"unix:{here}/s")
        client.subscribe("news", lambda message: None)
        assert eventually(lambda: reason in caplog.text)
        with pytest.raises(BackendUnavailable) as caught:
            client.call(request("secret"), 0.1)
        client.close()
    assert reason in str(caught.value)
    assert "install releases of netfw with the same version" in str(caught.value)
    assert received == []


def test_version_is_checked_before_the_token_is_proved(here, transport, caplog):
    listening = socket.create_server(("127.0.0.1", 24122))
    with greeting_server(listening, PROVE | {"protocol": 3}) as received:
        tokens = token_file(here / "t", f"{TOKEN}\n")
        client = transport(connect="tcp:127.0.0.1:24122", token_file=tokens)
        client.subscribe("news", lambda message: None)
        assert eventually(lambda: DIFFERENT in caplog.text)
        client.close()
    assert received == []


def test_client_finds_the_server_of_its_version_among_others(here, transport):
    transport(listen=f"unix:{here}/same").serve("server", Callers())
    with greeting_server(listen_unix(here / "other"), WELCOME | {"protocol": 3}):
        addresses = ",".join(f"unix:{here}/{name}" for name in ("other", "same", "other"))
        for _ in range(5):  # each client starts at a random address
            client = transport(connect=addresses)
            assert client.call(request(), LONG).method == "echo"
            client.close()
