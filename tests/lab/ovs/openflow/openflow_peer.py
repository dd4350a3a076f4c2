"""A peer that is a plain socket and does what a test tells it."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import pack

import pytest

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import OpenFlow
from netfw.ovs.openflow.messages import CLOSE, COMMIT, HEADER, Type

HELLO = pack("!BBHIHHI", 5, 0, 16, 1, 1, 8, 1 << 5)
Behaviour = Callable[[socket.socket], None]


class Peer:
    """Accepts connections, one after the other, and does with each what it was told."""

    def __init__(self, behaviour: Behaviour, path: Path | None = None) -> None:
        self._behaviour = behaviour
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.target = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen()
            self.target = f"unix:{path}"
        self.accepted = 0
        self._closing = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._closing:
                sock.close()
                return
            self.accepted += 1
            with sock:
                try:
                    self._behaviour(sock)
                except OSError:
                    continue

    def close(self) -> None:
        self._closing = True
        with socket.socket(self._listener.family) as last:
            last.connect(self._listener.getsockname())
        self._thread.join(60)
        self._listener.close()


def received(sock: socket.socket) -> tuple[int, int, bytes]:
    """Return the next message: type, xid, body."""
    head = sock.recv(8, socket.MSG_WAITALL)
    if len(head) < 8:
        raise OSError("hung up")
    _, kind, length, xid = HEADER.unpack(head)
    return kind, xid, sock.recv(length - 8, socket.MSG_WAITALL) if length > 8 else b""


def until_hung_up(sock: socket.socket) -> None:
    while True:
        received(sock)


def error_of(client: OpenFlow) -> str:
    """Return the reason why there is no connection."""
    with pytest.raises(BackendUnavailable) as unavailable:
        client.wait_connected(0.1)
    return str(unavailable.value)


class Relay:
    """Passes everything on to a bridge and back; commits may wait, or they or answers get lost.

    *on_closed* is called before the answer to the step before a commit is passed back.
    """

    def __init__(self, bridge: str) -> None:
        self._bridge = bridge.removeprefix("unix:")
        self.may_commit, self.may_connect = threading.Event(), threading.Event()
        self.may_commit.set()
        self.may_connect.set()
        self.on_closed: Callable[[], None] = lambda: None
        self.loses_commits = self.loses_answers = False

    def __call__(self, sock: socket.socket) -> None:
        self.may_connect.wait(30)
        with socket.socket(socket.AF_UNIX) as switch:
            switch.connect(self._bridge)
            back = threading.Thread(target=self._back, args=(switch, sock))
            back.start()
            try:
                while True:
                    kind, xid, body = received(sock)
                    if _is_step(kind, body, COMMIT):
                        self.may_commit.wait(30)
                        if self.loses_commits:
                            return
                    switch.sendall(_message(kind, xid, body))
            finally:
                switch.shutdown(socket.SHUT_RDWR)
                back.join(60)

    def _back(self, switch: socket.socket, sock: socket.socket) -> None:
        with suppress(OSError):
            while True:
                kind, xid, body = received(switch)
                if _is_step(kind, body, CLOSE + 1):
                    self.on_closed()
                if self.loses_answers and _is_step(kind, body, COMMIT + 1):
                    sock.shutdown(socket.SHUT_RDWR)
                    return
                sock.sendall(_message(kind, xid, body))


def _is_step(kind: int, body: bytes, step: int) -> bool:
    return kind == Type.BUNDLE_CONTROL and int.from_bytes(body[4:6], "big") == step


def _message(kind: int, xid: int, body: bytes) -> bytes:
    return HEADER.pack(5, kind, 8 + len(body), xid) + body
