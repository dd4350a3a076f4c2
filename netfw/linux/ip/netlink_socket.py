"""Netlink socket: requests to the kernel's routing and link tables.

Requests are encoded by pyroute2; the socket is ours.  pyroute2's own ``IPRoute`` opens a socket per
*using* thread, so that one made in a namespace and used elsewhere silently configures another
network.  A plain socket stays in the namespace it was opened in; and because device names are still
looked up by thread, a :class:`Netlink` refuses to work for any thread but the one that opened it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.linux.netlink.messages import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    NetlinkMessage,
    parse_messages,
    render_message,
)
from netfw.linux.netlink.raw_socket import RawNetlinkSocket

NEW_LINK, DEL_LINK, GET_LINK, SET_LINK = 16, 17, 18, 19
NEW_ADDRESS, DEL_ADDRESS, GET_ADDRESS = 20, 21, 22
NEW_ROUTE, DEL_ROUTE, GET_ROUTE = 24, 25, 26
NEW_NEIGHBOUR, DEL_NEIGHBOUR, GET_NEIGHBOUR = 28, 29, 30
NEW_RULE, DEL_RULE, GET_RULE = 32, 33, 34

REPLACE, EXCLUSIVE, CREATE = 0x100, 0x200, 0x400

_TIMEOUT = 30.0
_DUMP_ATTEMPTS = 10


class NetlinkError(Exception):
    """An error reply of the kernel; only for this package, callers get it translated."""

    def __init__(self, number: int, said: str = "") -> None:
        self.number, self.said = number, said
        super().__init__(said or os.strerror(number))


@frozen
class Request:
    """One message before encoding: pyroute2's names for fields and attributes, or a *body*."""

    kind: int
    fields: Mapping[str, int] = field(factory=dict)
    attributes: tuple[tuple[str, Any], ...] = ()
    flags: int = 0
    body: bytes = b""
    """All of it behind the header, as the kernel sent it."""


class Netlink:
    """Netlink socket of the calling thread, in the namespace it is in now.

    :raises NetlinkError: the kernel does not give such a socket.
    """

    def __init__(self) -> None:
        # Importing pyroute2 takes 200 ms; only users of netlink pay for it.
        from pyroute2.netlink.rtnl.marshal import MarshalRtnl

        self._marshal: Any = MarshalRtnl()
        self._owner = threading.current_thread()
        try:
            self._netlink = RawNetlinkSocket(socket.NETLINK_ROUTE, strict=True, timeout=_TIMEOUT)
        except OSError as error:
            raise NetlinkError(error.errno or 0, str(error)) from error

    def close(self) -> None:
        self._netlink.close()

    def send(self, request: Request) -> None:
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

    def dump(self, request: Request) -> list[memoryview]:
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

    def get(self, request: Request) -> list[memoryview]:
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

    def _put(self, request: Request, flags: int) -> int:
        """Send *request*; return its sequence number."""
        sequence = self._netlink.next_sequence()
        if request.body:
            self._write(render_message(request.kind, request.flags | flags, sequence, request.body))
            return sequence
        message = self._marshal.msg_map[request.kind]()
        for name, value in request.fields.items():
            message[name] = value
        message["attrs"] = list(request.attributes)
        header = message["header"]
        header["type"] = request.kind
        header["flags"] = request.flags | flags | NLM_F_REQUEST
        header["sequence_number"] = sequence
        try:
            message.encode()
        except struct.error as error:
            raise NetlinkError(errno.EINVAL, f"a number is out of range: {error}") from error
        self._write(message.data)
        return sequence

    def _write(self, data: bytes) -> None:
        try:
            self._netlink.send(data)
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
