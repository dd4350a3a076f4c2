"""The client of the socket transport, when something fails that is no error of a connection."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from netfw.drivers.transport import Caller, Message
from netfw.errors import BackendUnavailable
from netfw.testing.lab.wait import wait_until
from netfw_drivers.transports.sockets.address import TcpAddress
from netfw_drivers.transports.sockets.options import Settings
from netfw_drivers.transports.sockets.transport import SocketTransport
from tests.thread_limit import no_threads

QUESTION = Message(topic="server", method="ask")


@pytest.fixture
def address() -> TcpAddress:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return TcpAddress("localhost", found.getsockname()[1], False)


def settings(tmp_path: Path, address: TcpAddress, **more: object) -> Settings:
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef0123\n")
    tokens.chmod(0o600)
    return Settings(token_file=str(tokens), pause=0.05, pause_max=0.1, **more)  # type: ignore[arg-type]


def test_client_connects_after_a_thread_that_resolves_names_was_refused(
    tmp_path: Path, address: TcpAddress
) -> None:
    server = SocketTransport(settings(tmp_path, address, listen=(address,)))
    client = SocketTransport(settings(tmp_path, address, connect=(address,)))
    try:
        server.serve("server", lambda message, caller: message)
        client.unreachable_reason("server")
        client._loop.call_soon(lambda: None)  # its thread runs
        with no_threads(), pytest.raises(BackendUnavailable, match="start new thread"):
            client.call(QUESTION, 0.5)
        assert client.call(QUESTION, 10) == QUESTION
    finally:
        client.close()
        server.close()


def test_request_that_gets_no_thread_is_refused_at_once(
    tmp_path: Path, address: TcpAddress
) -> None:
    connected = threading.Event()
    server = SocketTransport(settings(tmp_path, address, listen=(address,)))
    client = SocketTransport(settings(tmp_path, address, connect=(address,)))
    try:
        server.serve("server", lambda message, caller: message)
        client.subscribe("server", lambda message: connected.set())
        while not connected.wait(0.1):
            server.publish(QUESTION)
        with (
            no_threads(),
            pytest.raises(BackendUnavailable, match="0 of 8 threads"),
        ):
            client.call(QUESTION, 10)
        assert client.call(QUESTION, 10) == QUESTION
    finally:
        client.close()
        server.close()


def test_name_that_no_host_can_have_is_the_reason_of_a_timeout(tmp_path: Path) -> None:
    address = TcpAddress("a..b", 1, False)
    client = SocketTransport(settings(tmp_path, address, connect=(address,)))
    with pytest.raises(BackendUnavailable, match="label"):
        client.call(QUESTION, 0.5)
    client.close()


def test_handler_that_stops_its_server_is_answered_without_a_thread_for_the_stop(
    tmp_path: Path, address: TcpAddress
) -> None:
    server = SocketTransport(settings(tmp_path, address, listen=(address,)))
    first, client = (
        SocketTransport(settings(tmp_path, address, connect=(address,))) for _ in range(2)
    )
    try:
        stop = server.serve("server", lambda message, caller: message)
        assert first.call(QUESTION, 10) == QUESTION
        stop()

        def handle(message: Message, caller: Caller) -> Message:
            with no_threads():
                stop()
            return message

        stop = server.serve("server", handle)
        assert client.call(QUESTION, 10) == QUESTION
        wait_until(lambda: server._server is None, "it stops to listen")
    finally:
        first.close()
        client.close()
        server.close()


def test_subscription_that_got_no_thread_is_made_again_once(
    tmp_path: Path, address: TcpAddress
) -> None:
    server = SocketTransport(settings(tmp_path, address, listen=(address,)))
    client = SocketTransport(settings(tmp_path, address, connect=(address,)))
    received: list[str] = []
    try:
        server.serve("server", lambda message, caller: message)
        with no_threads(), pytest.raises(BackendUnavailable):
            client.subscribe("news", lambda message: received.append(f"lost {message.method}"))
        client.subscribe("news", lambda message: received.append(message.method))
        wait_until(lambda: "subscribed" in received, "it is subscribed")
        assert received == ["subscribed"]
    finally:
        client.close()
        server.close()
