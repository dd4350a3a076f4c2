"""The socket of the metadata agent on a machine that lacks threads."""

import socket

import pytest

from netfw.agents.metadata.unix_listener import UnixListener
from netfw.errors import BackendUnavailable
from netfw.http.server import HttpSettings
from netfw.linux.fs.lock_file import LockFile
from tests.thread_limit import no_threads


def answer(environ, start):
    start("204 No Content", [])
    return ()


def test_socket_that_cannot_be_served_is_bound_by_the_next_attempt(tmp_path):
    path = tmp_path / "socket"
    lock = LockFile(tmp_path / "lock")
    listener = UnixListener(answer, path, mode=0o600, settings=HttpSettings(threads=1), lock=lock)
    try:
        with no_threads(), pytest.raises(BackendUnavailable, match="new thread"):
            listener.open()
        assert not listener.is_bound
        listener.open()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(path))
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"204" in client.recv(1000)
    finally:
        listener.close(1.0)
