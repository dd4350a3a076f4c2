"""Raw netlink socket: set-up, sequence numbers, replies and overruns; what it carries is bytes."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Collection, Container, Iterable, Iterator
from itertools import starmap
from typing import Self

from netfw.linux.netlink.messages import NetlinkMessage, parse_messages, render_message

NETLINK_NETFILTER = 12
"""As NETLINK_ROUTE; the socket module does not have it."""
_SOL_NETLINK = 270
_ADD_MEMBERSHIP, _LISTEN_ALL_NSID, _CAP_ACK, _EXT_ACK, _GET_STRICT_CHK = 1, 8, 10, 11, 12
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_DATAGRAM = 1 << 17
"""More than the kernel puts into one."""
_NSID = struct.Struct("=i")
_BPF_INSTRUCTION, _BPF_PROGRAM = struct.Struct("=HBBI"), struct.Struct("@HP")
_BPF_LOAD_HALF, _BPF_JUMP_UNLESS_EQUAL, _BPF_RETURN = 0x28, 0x15, 0x06
_KIND_OFFSET, _ALL_BYTES = 4, 0xFFFFFFFF


class NetlinkOverrun(OSError):
    """The kernel dropped messages: the receive buffer of the socket was full (ENOBUFS)."""

    def __init__(self) -> None:
        super().__init__(errno.ENOBUFS, f"{os.strerror(errno.ENOBUFS)}: messages were lost")


class RawNetlinkSocket:
    """A bound netlink socket of the namespace that the calling thread is in.

    It stays in that namespace, whichever thread uses it; one thread at a time.

    :param protocol: `NETLINK_ROUTE`, `NETLINK_NETFILTER`...
    :param groups: numbers of the multicast groups to join.
    :param all_namespaces: receive what is multicast in every namespace that has an id here.
    :param receive_buffer: bytes of messages that the kernel holds before it drops some; without
        CAP_NET_ADMIN on the host, its limit net.core.rmem_max applies.
    :param only: the kind of message to receive; the kernel drops datagrams that begin with
        another one.
    :param strict: have the kernel check requests strictly, filter dumps by them, and explain
        errors.
    :param timeout: seconds to wait for a message; 0 does not wait, ``None`` waits for ever.
    :raises OSError: the kernel refuses such a socket.
    """

    def __init__(
        self,
        protocol: int,
        *,
        groups: Iterable[int] = (),
        all_namespaces: bool = False,
        receive_buffer: int | None = None,
        only: int | None = None,
        strict: bool = False,
        timeout: float | None = None,
    ) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._sequence = 0
        self._socket = socket.socket(socket.AF_NETLINK, kind, protocol)
        try:
            if receive_buffer is not None:
                self._set_receive_buffer(receive_buffer)
            if only is not None:
                self._attach_filter(only)
            options = [(option, 1) for option in (_CAP_ACK, _EXT_ACK, _GET_STRICT_CHK) if strict]
            options += [(_LISTEN_ALL_NSID, 1)] if all_namespaces else []
            options += [(_ADD_MEMBERSHIP, group) for group in groups]
            self._socket.bind((0, 0))  # an unbound netlink socket receives no multicast
            for option, value in options:
                self._socket.setsockopt(_SOL_NETLINK, option, value)
            self._socket.settimeout(timeout)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the file descriptor, for poll."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket.  Idempotent."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next_sequence(self) -> int:
        """Return the sequence number for another request."""
        self._sequence += 1
        return self._sequence

    def request(self, kind: int, body: bytes, flags: int = 0) -> int:
        """Send one request; return its sequence number."""
        sequence = self.next_sequence()
        self.send(render_message(kind, flags, sequence, body))
        return sequence

    def send(self, data: bytes) -> None:
        """Send one or more messages, which have their headers, as one datagram."""
        self._socket.send(data)

    def replies(
        self, sequences: Container[int], containing: Collection[bytes] = ()
    ) -> Iterator[NetlinkMessage]:
        """Yield what the kernel answers to *sequences*, without end; skip other messages.

        :param containing: skip also messages without any of these bytes, as `parse_messages` does.
        :raises TimeoutError: there was no answer in time.
        :raises NetlinkOverrun: answers were lost.
        """
        while True:
            for message in parse_messages(self.receive(), containing):
                if message.sequence in sequences:
                    yield message

    def receive(self) -> bytes:
        """Receive one datagram.

        :raises BlockingIOError: there is none, and the timeout is 0.
        :raises TimeoutError: there was none in time.
        :raises NetlinkOverrun: messages before it were lost.
        """
        try:
            return self._socket.recv(_DATAGRAM)
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                raise NetlinkOverrun from error
            raise

    def receive_origin(self) -> tuple[int, ...]:
        """Receive one datagram and drop its contents; return the id of the namespace it is from.

        It has an id if the socket listens in all namespaces, and the datagram is from another one.

        :raises OSError: as of `receive`.
        """
        try:
            _, ancillary, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(_NSID.size))
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                raise NetlinkOverrun from error
            raise
        return tuple(_NSID.unpack(data)[0] for _, _, data in ancillary)

    def _set_receive_buffer(self, size: int) -> None:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
        except PermissionError:  # root of a user namespace only
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def _attach_filter(self, kind: int) -> None:
        """Attach a BPF program that accepts datagrams which begin with a message of *kind*."""
        program = (
            (_BPF_LOAD_HALF, 0, 0, _KIND_OFFSET),
            (_BPF_JUMP_UNLESS_EQUAL, 0, 1, socket.htons(kind)),
            (_BPF_RETURN, 0, 0, _ALL_BYTES),
            (_BPF_RETURN, 0, 0, 0),
        )
        code = ctypes.create_string_buffer(b"".join(starmap(_BPF_INSTRUCTION.pack, program)))
        attached = _BPF_PROGRAM.pack(len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
