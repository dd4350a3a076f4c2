"""What the tests of transports on real sockets share."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Caller, Message, Transport
from netfw.errors import BackendUnavailable
from netfw_drivers.transports.sockets.framing import Frame, FrameReader, encode

LONG = 60.0
"""Seconds for what takes a moment on an idle machine."""
QUICK = {"reconnect_interval": 0.05, "reconnect_interval_max": 0.2}


def make(**options: Any) -> Transport:
    """Make a transport without a broker, and without addresses that *options* do not give."""
    given = {"listen": "", "connect": "", **QUICK, **options}
    return create(Transport, "socket", given, LocalHostResources())


def request(method: str = "echo", body: bytes = b"") -> Message:
    """Return a request to the server."""
    return Message(topic="server", method=method, body=body)


class Callers:
    """A handler that remembers who asked what."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Caller]] = []

    def __call__(self, message: Message, caller: Caller) -> Message:
        self.seen.append((message.method, caller))
        return message


class RawClient:
    """A client that says whatever a test wants."""

    def __init__(self, where: str | tuple[str, int]) -> None:
        family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(LONG)
        self.socket.connect(where)
        self._reader = FrameReader(1 << 20)

    def send(self, **header: Any) -> None:
        """Send a frame."""
        self.socket.sendall(encode(header))

    def receive(self) -> Frame:
        """Return the next frame.

        :raises EOFError: the server has ended the connection.
        """
        while (frame := self._reader.next()) is None:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the server has ended the connection")
            self._reader.add(data)
        return frame

    def is_dropped(self, seconds: float) -> bool:
        """Return whether the server ends the connection within *seconds*."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def close(self) -> None:
        """End it."""
        self.socket.close()


def length(size: int) -> bytes:
    """Return the beginning of a frame of *size* bytes."""
    return struct.pack("!I", size)


def token_file(path: Path, text: str) -> str:
    """Write a file of tokens that nobody else can read, which is never seen in part."""
    new = path.with_name(f"{path.name}.new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(path)
    return str(path)


def call_error(client: Transport, seconds: float, topic: str = "server") -> str:
    """Return why a request is not answered; empty: it is."""
    try:
        client.call(Message(topic=topic, method="echo"), seconds)
    except BackendUnavailable as error:
        return str(error)
    return ""


def eventually(true: Callable[[], object], seconds: float = 60.0) -> bool:
    """Return whether *true* becomes true."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
