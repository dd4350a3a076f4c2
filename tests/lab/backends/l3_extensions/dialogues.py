"""Dialogues of FTP and TFTP between two instances, as conntrack helpers read them."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Final

from netfw.model.values.address import IpAddress
from netfw.testing.lab.instance import Instance

FTP_PORT: Final = 2121
TFTP_PORT: Final = 6969
QUIET: Final = 1.0
"""Seconds in which a packet arrives that is not dropped."""


def open_socket(machine: Instance, kind: int, address: IpAddress, port: int = 0) -> socket.socket:
    """Return a socket in the namespace of *machine*, bound to one of its addresses."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_INET, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((str(address), port))
        made.settimeout(5)
        return made

    return machine.call(make)


def requested_address(client: Instance, inside: IpAddress, server: Instance, to: IpAddress) -> str:
    """Return the address of a PORT command of an FTP client, as the server receives it.

    If it is another one than the client sent, the server connects to it, and reaches the client.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(open_socket(server, socket.SOCK_STREAM, to, FTP_PORT))
        control = stack.enter_context(open_socket(client, socket.SOCK_STREAM, inside))
        data = stack.enter_context(open_socket(client, socket.SOCK_STREAM, inside))
        listener.listen(1)
        data.listen(1)
        control.connect((str(to), FTP_PORT))
        session = stack.enter_context(listener.accept()[0])
        session.settimeout(5)
        control.sendall(b"USER anonymous\r\n")  # the kernel reads from the second line on
        assert session.recv(100)
        session.sendall(b"230 welcome\r\n")
        assert control.recv(100)
        port = data.getsockname()[1]
        numbers = ",".join([*str(inside).split("."), str(port // 256), str(port % 256)])
        control.sendall(f"PORT {numbers}\r\n".encode())
        *octets, high, low = session.recv(100).decode().removeprefix("PORT ").strip().split(",")
        address = ".".join(octets)
        if address != str(inside):
            back = stack.enter_context(open_socket(server, socket.SOCK_STREAM, to))
            back.connect((address, int(high) * 256 + int(low)))
            data.accept()[0].close()
        return address


def transfer_starts(
    client: Instance, inside: IpAddress, server: Instance, to: IpAddress, seconds: float = QUIET
) -> bool:
    """Return whether a TFTP client gets the answer, which is from another port of the server."""
    asked = open_socket(server, socket.SOCK_DGRAM, to, TFTP_PORT)
    answering = open_socket(server, socket.SOCK_DGRAM, to)
    requesting = open_socket(client, socket.SOCK_DGRAM, inside)
    with asked, answering, requesting:
        requesting.sendto(b"\0\1file\0octet\0", (str(to), TFTP_PORT))
        _, source = asked.recvfrom(100)
        answering.sendto(b"\0\3\0\1content", source)
        requesting.settimeout(seconds)
        try:
            return requesting.recv(100).endswith(b"content")
        except TimeoutError:
            return False
