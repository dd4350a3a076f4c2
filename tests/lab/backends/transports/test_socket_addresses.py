"""Addresses of servers without a broker: taken, left behind, shared, lost and found."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netfw.drivers.transport import Message
from netfw.errors import BackendBroken, BackendUnavailable, ConfigError, Conflict
from tests import ROOT
from tests.lab.backends.transports.raw_client import LONG, Callers, eventually, request

pytestmark = pytest.mark.spec("RPC-01")

SERVE = """
import os, sys, time
from tests.lab.backends.transports.raw_client import make
server = make(listen=sys.argv[1])
server.serve("server", lambda message, caller: type(message)(
    topic="", method=message.method, body=str(os.getpid()).encode()))
print("ready", flush=True)
sys.stdin.read()
server.close()
"""


class ServerProcess:
    """A server in a process of its own."""

    def __init__(self, listen: str, descriptors: tuple[int, ...] = ()) -> None:
        argv = [sys.executable, "-c", SERVE, listen]
        self.process = subprocess.Popen(
            argv,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self, sign: signal.Signals | None = None) -> None:
        if sign is not None:
            self.process.send_signal(sign)
        self.process.communicate(timeout=LONG)


@pytest.fixture
def start(closing):
    """Return a function that starts servers; they are killed at the end."""

    def started(listen: str, descriptors: tuple[int, ...] = ()) -> ServerProcess:
        made = ServerProcess(listen, descriptors)
        closing.callback(made.end, signal.SIGKILL)
        return made

    return started


def test_a_socket_is_gone_with_its_server(here, transport):
    server = transport(listen=f"unix:{here}/a/b/s")
    stop = server.serve("server", Callers())
    assert sorted(path.name for path in (here / "a/b").iterdir()) == ["s", "s.lock"]
    stop()
    assert not list((here / "a/b").iterdir())
    server.serve("server", Callers())
    server.close()
    assert not list((here / "a/b").iterdir())


def test_what_a_killed_server_left_behind_is_taken_over(here, transport, start):
    killed = start(f"unix:{here}/s")
    client = transport(connect=f"unix:{here}/s")
    assert client.call(request(), LONG).body == str(killed.process.pid).encode()
    killed.end(signal.SIGKILL)
    assert (here / "s").exists()
    again = start(f"unix:{here}/s")
    assert eventually(lambda: _asks(client) == str(again.process.pid).encode())


def _asks(client):
    try:
        return client.call(request(), 1).body
    except BackendUnavailable:
        return None


def test_unix_address_in_use_is_a_conflict(here, transport, start):
    server = start(f"unix:{here}/s")
    before = os.stat(here / "s")
    with pytest.raises(Conflict, match=f"taken: process {server.process.pid} serves there"):
        transport(listen=f"unix:{here}/s").serve("server", Callers())
    (here / "s.lock").unlink()  # nobody should, and somebody will
    with pytest.raises(Conflict, match="taken"):
        transport(listen=f"unix:{here}/s").serve("server", Callers())
    assert os.stat(here / "s").st_ino == before.st_ino
    assert transport(connect=f"unix:{here}/s").call(request(), LONG)


def test_tcp_port_in_use_is_a_conflict(here, transport):
    with socket.create_server(("127.0.0.1", 24300)):
        token = Path(here / "t")
        token.touch(mode=0o600)
        token.write_text("0123456789abcdef")
        server = transport(listen="tcp:127.0.0.1:24300", token_file=str(token))
        with pytest.raises(Conflict, match="24300"):
            server.serve("server", Callers())


def test_a_file_that_is_no_socket_is_left_alone(here, transport):
    (here / "s").write_text("important")
    with pytest.raises(Conflict, match="no socket"):
        transport(listen=f"unix:{here}/s").serve("server", Callers())
    assert (here / "s").read_text() == "important"


def test_of_two_addresses_both_are_taken_or_none(here, transport):
    (here / "b").write_text("important")
    server = transport(listen=f"unix:{here}/a,unix:{here}/b")
    with pytest.raises(Conflict):
        server.serve("server", Callers())
    assert [path.name for path in here.iterdir()] == ["b"]


def test_impossible_listen_address_is_reported(transport):
    with pytest.raises(BackendBroken, match="cannot listen at unix:/proc/no/s"):
        transport(listen="unix:/proc/no/s").serve("server", Callers())
    with pytest.raises(ConfigError, match="no open socket"):
        transport(listen="fd:999").serve("server", Callers())


def test_processes_share_an_address_that_one_of_them_took(here, transport, start):
    parent = transport(listen=f"unix:{here}/s")
    shared = parent.share_address()
    workers = [start(shared.options["listen"], shared.descriptors) for _ in range(2)]
    pids = {str(each.process.pid).encode() for each in workers}
    clients = [transport(connect=f"unix:{here}/s") for _ in range(12)]
    assert {client.call(request(), LONG).body for client in clients} <= pids
    workers[0].end(signal.SIGKILL)
    left = str(workers[1].process.pid).encode()
    for client in clients:
        assert eventually(lambda each=client: _asks(each) == left)
    assert (here / "s").exists(), "a worker took the address with it"
    workers[1].end()
    assert (here / "s").exists(), "a worker took the address with it"
    parent.close()
    assert not (here / "s").exists()


def test_the_next_server_is_tried_when_one_fails(here, transport, start):
    first, second = (start(f"unix:{here}/{name}") for name in ("one", "two"))
    client = transport(connect=f"unix:{here}/one,unix:{here}/two")
    heard: list[str] = []
    client.subscribe("news", lambda message: heard.append(message.method))
    pids = {str(first.process.pid).encode(): first, str(second.process.pid).encode(): second}
    used = client.call(request(), LONG).body
    assert eventually(lambda: heard == ["subscribed"])
    pids.pop(used).end(signal.SIGKILL)
    (left,) = pids
    assert eventually(lambda: _asks(client) == left)
    assert eventually(lambda: heard.count("subscribed") == 2)


@pytest.fixture
def listening(here):
    """Yield a socket where no server answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(f"{here}/s")
        made.listen()
        made.settimeout(LONG)
        yield made


def test_pauses_between_attempts_grow(here, transport, listening):
    attempts: list[float] = []
    client = transport(connect=f"unix:{here}/s", reconnect_interval=0.1, reconnect_interval_max=60)
    client.subscribe("news", lambda message: None)
    for _ in range(5):
        connection, _ = listening.accept()
        attempts.append(time.monotonic())  # the pause begins with the close
        connection.close()
    gaps = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert all(gap > 0.49 * 0.1 * 2**number for number, gap in enumerate(gaps)), gaps


def test_request_cuts_a_long_pause_short(here, transport, listening, caplog):
    client = transport(connect=f"unix:{here}/s", reconnect_interval=600, reconnect_interval_max=600)
    client.subscribe("news", lambda message: None)
    listening.accept()[0].close()
    assert eventually(lambda: "not connected to" in caplog.text), "the pause has begun"
    with pytest.raises(BackendUnavailable):
        client.call(request(), 0.1)
    listening.accept()[0].close()  # the pause would last five minutes yet


def test_what_was_published_before_a_client_came_is_not_kept(here, transport):
    server, heard = transport(listen=f"unix:{here}/s"), []
    server.serve("server", Callers())
    for _ in range(1000):
        server.publish(Message(topic="news", method="old"))
    client = transport(connect=f"unix:{here}/s")
    client.subscribe("news", lambda message: heard.append(message.method))
    assert eventually(lambda: heard)
    time.sleep(0.1)
    assert heard == ["subscribed"]
