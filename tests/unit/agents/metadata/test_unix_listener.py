"""The socket of the metadata agent on a machine that lacks threads."""

import re
import socket
import threading

import pytest

from netfw.agents.metadata.unix_listener import UnixListener
from netfw.errors import BackendUnavailable
from netfw.http.server import HttpSettings
from netfw.linux.fs.lock_file import LockFile
from tests.thread_limit import no_threads, threads_left


def answer(environ, start):
    start("204 No Content", [])
    return ()


@pytest.fixture
def listener(tmp_path):
    settings, lock = HttpSettings(threads=2), LockFile(tmp_path / "lock")
    made = UnixListener(answer, tmp_path / "socket", mode=0o600, settings=settings, lock=lock)
    yield made
    made.close(1.0)


def ask(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        return client.recv(1000)


@pytest.mark.parametrize("left", range(6))
def test_socket_that_cannot_be_served_is_bound_by_the_next_attempt(listener, left):
    before = set(threading.enumerate())
    refusal = f"{re.escape(str(listener.path))}.*can't start new thread"
    with threads_left(left), pytest.raises(BackendUnavailable, match=refusal):
        listener.open()
    assert not listener.is_bound
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()
    listener.open()
    assert b"204" in ask(listener.path)


def test_listener_is_closed_without_a_thread_for_it(listener):
    before = set(threading.enumerate())
    listener.open()
    assert b"204" in ask(listener.path)
    with no_threads():
        listener.close(1.0)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()
