"""TCP connections between namespaces, for the sections of the demo."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from netfw.cli.demo.agents import TIMEOUT
from netfw.testing.lab.instance import Instance

SILENCE = 0.5
"""Seconds without data after which a connection counts as cut."""
_SHORT = 0.3


@contextlib.contextmanager
def listening(server: Instance, port: int) -> Iterator[socket.socket]:
    """Listen on *port* within an instance."""
    with server.call(socket.socket, socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("", port))
        listener.listen()
        yield listener


def connects(client: Instance, address: str, port: int) -> bool:
    """Return whether a connection is established at once."""
    with client.call(socket.socket, socket.AF_INET, socket.SOCK_STREAM) as caller:
        caller.settimeout(_SHORT)
        try:
            caller.connect((address, port))
        except OSError:
            return False
        return True


def arrives(client: Instance, address: str, listener: socket.socket) -> bool:
    """Return whether a connection to *address* is established at once, with *listener*."""
    try:
        with connected(client, address, listener, _SHORT):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def connected(
    client: Instance, address: str, listener: socket.socket, timeout: float = TIMEOUT
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect to *address*, at the port of *listener*; yield both ends of the connection.

    :raises OSError: there is no connection with *listener* within *timeout*.
    """
    with client.call(socket.socket, socket.AF_INET, socket.SOCK_STREAM) as near:
        near.settimeout(timeout)
        near.connect((address, listener.getsockname()[1]))
        listener.settimeout(timeout)
        far, peer = listener.accept()
        while peer[1] != near.getsockname()[1]:  # from earlier attempts
            far.close()
            far, peer = listener.accept()
        with far:
            yield near, far


def carries(near: socket.socket, far: socket.socket, seconds: float = SILENCE) -> bool:
    """Return whether data that is sent now arrives within *seconds*."""
    far.settimeout(seconds)
    try:
        near.sendall(b".")
        return bool(far.recv(4096))
    except OSError:
        return False
