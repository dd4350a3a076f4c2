"""Servers whose process hangs while the kernel keeps its connections."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from netfw.drivers.transport import Transport
from netfw.errors import BackendUnavailable
from netfw.testing.lab.wait import wait_until
from netfw_drivers.transports.sockets.server_connection import ServerConnection
from tests.lab.backends.transports.raw_client import request

SERVE = """
import sys
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.drivers.transport import Message, Transport
options = {"listen": f"unix:{sys.argv[1]}", "connect": ""}
transport = create(Transport, "socket", options, LocalHostResources())
name = sys.argv[1].encode()
transport.serve("server", lambda asked, caller: Message(topic="server", method="is", body=name))
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def serving(address: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a server, in a process of its own, that answers with its address."""
    argv = [sys.executable, "-c", SERVE, str(address)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.spec("RPC-01")
def test_client_of_a_stopped_server_connects_to_another_one(
    here: Path, closing: ExitStack, transport: Callable[..., Transport]
) -> None:
    servers = {str(here / name): closing.enter_context(serving(here / name)) for name in ("a", "b")}
    client = transport(
        connect=",".join(f"unix:{address}" for address in servers),
        idle_timeout=0.5,
        handshake_timeout=5,
    )
    received: list[str] = []
    client.subscribe("news", lambda message: received.append(message.method))
    first = client.call(request(), 60).body.decode()
    servers[first].send_signal(signal.SIGSTOP)

    def served_by() -> str | None:
        try:
            return client.call(request(), 1).body.decode()
        except BackendUnavailable:
            return None

    wait_until(lambda: served_by() in servers.keys() - {first}, served_by)
    assert "disconnected" in received
    assert received[-1] == "subscribed"


@pytest.mark.spec("RPC-01")
def test_connection_without_messages_lasts(
    here: Path, transport: Callable[..., Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe, probes, received = ServerConnection._subscribe, list[float](), list[str]()

    def record(connection: ServerConnection, topics: tuple[str, ...]) -> None:
        if not topics:
            probes.append(time.monotonic())
        subscribe(connection, topics)

    monkeypatch.setattr(ServerConnection, "_subscribe", record)
    server = transport(listen=f"unix:{here}/s")
    server.serve("server", lambda message, caller: message)
    client = transport(connect=f"unix:{here}/s", idle_timeout=2)
    client.subscribe("news", lambda message: received.append(message.method))
    wait_until(lambda: len(probes) == 3, lambda: probes)
    assert received == ["subscribed"]
