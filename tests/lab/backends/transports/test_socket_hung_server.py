"""Servers whose process hangs while the kernel keeps its connections."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from netfw.drivers.transport import Caller, Message, Transport
from netfw.errors import BackendUnavailable
from netfw.testing.lab.wait import wait_until
from netfw_drivers.transports.sockets.server_connection import (
    _MAX_UNANSWERED,
    ServerConnection,
)
from tests.lab.backends.transports.raw_client import request

IDLE = 2.0
"""Seconds of silence after which clients probe."""
SERVE = """
import sys
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
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
    wait_until(lambda: received[-2:] == ["disconnected", "subscribed"], lambda: received)


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times of probes that servers of this process have answered."""
    subscribe, answered = ServerConnection._subscribe, list[float]()

    def record(connection: ServerConnection, topics: tuple[str, ...]) -> None:
        if not topics:
            answered.append(time.monotonic())
        subscribe(connection, topics)

    monkeypatch.setattr(ServerConnection, "_subscribe", record)
    return answered


@pytest.mark.spec("RPC-01")
def test_connection_without_messages_lasts(
    here: Path, transport: Callable[..., Transport], probes: list[float]
) -> None:
    received: list[str] = []
    server = transport(listen=f"unix:{here}/s")
    server.serve("server", lambda message, caller: message)
    client = transport(connect=f"unix:{here}/s", idle_timeout=IDLE)
    client.subscribe("news", lambda message: received.append(message.method))
    wait_until(lambda: len(probes) == 3, lambda: probes)
    assert received == ["subscribed"]


@pytest.mark.spec("RPC-01")
def test_connection_with_more_slow_requests_than_a_server_reads_lasts(
    here: Path, closing: ExitStack, transport: Callable[..., Transport]
) -> None:
    finish, begun = threading.Event(), threading.Semaphore(0)

    def work(message: Message, caller: Caller) -> Message:
        begun.release()
        finish.wait(60)
        return message

    server = transport(listen=f"unix:{here}/s", threads=_MAX_UNANSWERED, idle_timeout=IDLE)
    server.serve("server", work)
    client = transport(connect=f"unix:{here}/s", idle_timeout=IDLE)
    pool = closing.enter_context(ThreadPoolExecutor(_MAX_UNANSWERED + 1))
    closing.callback(finish.set)
    calls = [pool.submit(client.call, request(), 60) for _ in range(_MAX_UNANSWERED + 1)]
    for _ in range(_MAX_UNANSWERED):
        assert begun.acquire(timeout=60)
    time.sleep(3 * IDLE)
    finish.set()
    assert [call.result(60).method for call in calls] == [request().method] * len(calls)
