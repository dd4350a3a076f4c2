"""Established TCP connections between instances."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from netfw.testing.lab.instance import Instance

Streams = tuple[socket.socket, socket.socket]
"""The ends of a connection: of the client, and of the server."""

_TIMEOUT = 60.0


@contextmanager
def connected(client: Instance, server: Instance, address: str, port: int) -> Iterator[Streams]:
    """Connect *client* to *server*, which has *address*; yield both ends."""
    with server.call(_listen, address, port) as listening:
        end = client.call(socket.create_connection, (address, port), _TIMEOUT)
        accepted, _ = listening.accept()
    with end, accepted:
        assert passes(end, accepted), "no message arrives"
        assert passes(accepted, end), "no answer arrives"
        yield end, accepted


def passes(sender: socket.socket, receiver: socket.socket) -> bool:
    """Return whether a message arrives, instead of a reset."""
    sender.sendall(b"message")
    ready, _, _ = select.select([sender, receiver], [], [], _TIMEOUT)
    assert ready, "neither a message nor a reset arrives"
    return receiver in ready and receiver.recv(7, socket.MSG_WAITALL) == b"message"


def _listen(address: str, port: int) -> socket.socket:
    """Accept connections of the IP version of *address*."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server(("", port), family=family)
