"""Netlink socket: requests to the kernel's routing and link tables.

A socket stays in the namespace that it was opened in.  Device names are looked up by thread, and so
a :class:`Netlink` refuses to work for any thread but the one that opened it.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from typing import NamedTuple

from netfw.linux.netlink.messages import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLMSG_ERROR,
    NetlinkMessage,
    parse_messages,
)
from netfw.linux.netlink.raw_socket import RawNetlinkSocket

_TIMEOUT = 30.0
_DUMP_ATTEMPTS = 10


class NetlinkError(Exception):
    """An error reply of the kernel; only for this package, callers get it translated."""

    def __init__(self, number: int, message: str = "") -> None:
        self.number, self.message = number, message
        super().__init__(message or os.strerror(number))


class NetlinkRequest(NamedTuple):
    """One message before it has a sequence number."""

    kind: int
    body: bytes
    flags: int = 0


class Netlink:
    """Netlink socket of the calling thread, in the namespace it is in now.

    :raises NetlinkError: the kernel does not give such a socket.
    """

    def __init__(self) -> None:
        self._owner = threading.current_thread()
        try:
            self._netlink = RawNetlinkSocket(socket.NETLINK_ROUTE, strict=True, timeout=_TIMEOUT)
        except OSError as error:
            raise NetlinkError(error.errno or 0, str(error)) from error

    def close(self) -> None:
        self._netlink.close()

    def send(self, request: NetlinkRequest) -> None:
        """Send one request and wait for its acknowledgement.

        :raises NetlinkError: the kernel refused.
        """
        self._check_owner()
        sequence = self._put(request, NLM_F_ACK)
        while True:
            for message in self._replies(self._receive(), sequence):
                if message.kind == NLMSG_ERROR:
                    _raise_error(message)
                    return

    def dump(self, request: NetlinkRequest) -> list[memoryview]:
        """Dump a table as bodies of messages.  A dump that a change interrupts is repeated.

        :raises NetlinkError: the kernel refused.
        """
        self._check_owner()
        for _ in range(_DUMP_ATTEMPTS):
            sequence = self._put(request, NLM_F_DUMP)
            entries: list[memoryview] = []
            if self._collect(entries, sequence):
                return entries
        raise NetlinkError(errno.EAGAIN, "the table changed faster than it could be read")

    def get(self, request: NetlinkRequest) -> list[memoryview]:
        """Read the object that *request* names as bodies of messages, without a dump of the table.

        :raises NetlinkError: there is no such object.
        """
        self._check_owner()
        sequence = self._put(request, NLM_F_ACK)
        entries: list[memoryview] = []
        while True:
            for reply in self._replies(self._receive(), sequence):
                if reply.kind == NLMSG_ERROR:
                    _raise_error(reply)
                    return entries
                entries.append(reply.body)

    def index(self, device: str) -> int:
        """Return the index of *device* within this namespace.

        :raises NetlinkError: there is no such device.
        """
        self._check_owner()
        try:
            return socket.if_nametoindex(device)
        except OSError as error:
            raise NetlinkError(errno.ENODEV, f"there is no device {device} here") from error

    def name(self, index: int) -> str | None:
        """Return the name of the device of that index, or None if it is gone."""
        self._check_owner()
        try:
            return socket.if_indextoname(index)
        except OSError:
            return None

    def _collect(self, entries: list[memoryview], sequence: int) -> bool:
        """Read the replies to a dump; return False when it was interrupted by a change."""
        whole = True
        while True:
            for reply in self._replies(self._receive(), sequence):
                whole = whole and not reply.flags & NLM_F_DUMP_INTR
                if reply.is_final:
                    _raise_error(reply)
                    return whole
                entries.append(reply.body)

    def _put(self, request: NetlinkRequest, flags: int) -> int:
        """Send *request*; return its sequence number."""
        try:
            return self._netlink.request(request.kind, request.body, request.flags | flags)
        except OSError as error:
            raise NetlinkError(error.errno or 0, str(error)) from error

    @staticmethod
    def _replies(data: bytes, sequence: int) -> list[NetlinkMessage]:
        """Return the messages of *data* that answer the request *sequence*."""
        return [message for message in parse_messages(data) if message.sequence == sequence]

    def _receive(self) -> bytes:
        try:
            return self._netlink.receive()
        except TimeoutError as error:
            raise NetlinkError(errno.EAGAIN, f"no answer in {_TIMEOUT:.0f} s") from error
        except OSError as error:
            raise NetlinkError(error.errno or 0, str(error)) from error

    def _check_owner(self) -> None:
        if threading.current_thread() is not self._owner:
            raise RuntimeError(
                f"this netlink socket belongs to the thread {self._owner.name} and its namespace, "
                f"not to {threading.current_thread().name}: hand the call to its Worker"
            )


def _raise_error(reply: NetlinkMessage) -> None:
    """Raise the error of a final message; return if it reports success."""
    if number := reply.error_number:
        raise NetlinkError(number, reply.error_text)
