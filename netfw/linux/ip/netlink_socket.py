"""A conversation with the kernel's routing and link tables, over one socket.

The messages are pyroute2's; the socket is ours.  pyroute2's own ``IPRoute`` opens a socket per
*using* thread, so that one made in a namespace and used elsewhere quietly configures another
network.  A plain socket stays in the namespace it was opened in; and because device names are still
looked up by thread, a :class:`Netlink` refuses to work for any thread but the one that opened it.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

NEW_LINK, DEL_LINK, GET_LINK, SET_LINK = 16, 17, 18, 19
NEW_ADDRESS, DEL_ADDRESS, GET_ADDRESS = 20, 21, 22
NEW_ROUTE, DEL_ROUTE, GET_ROUTE = 24, 25, 26
NEW_NEIGHBOUR, DEL_NEIGHBOUR, GET_NEIGHBOUR = 28, 29, 30
NEW_RULE, DEL_RULE, GET_RULE = 32, 33, 34

REMOVALS = frozenset({DEL_LINK, DEL_ADDRESS, DEL_ROUTE, DEL_NEIGHBOUR, DEL_RULE})

REPLACE, EXCLUSIVE, CREATE = 0x100, 0x200, 0x400

_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_DUMP_INTERRUPTED, _CAPPED, _ACK_ATTRIBUTES = 0x10, 0x100, 0x200
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_SOL_NETLINK, _CAP_ACK, _EXT_ACK, _STRICT = 270, 10, 11, 12
_FORCED_BUFFER = 33
_MESSAGE_ATTRIBUTE = 1
_BUFFER = 1 << 17
_TIMEOUT = 30.0
_DUMP_ATTEMPTS = 10


class NetlinkError(Exception):
    """The kernel answered with an error; for this toolbox only, callers get it translated."""

    def __init__(self, number: int, said: str = "") -> None:
        self.number, self.said = number, said
        super().__init__(said or os.strerror(number))


@frozen
class Request:
    """One message before it is bytes: pyroute2's names for fields and attributes."""

    kind: int
    fields: Mapping[str, int]
    attributes: tuple[tuple[str, Any], ...] = ()
    flags: int = 0


class Netlink:
    """The calling thread's conversation with the kernel, in the namespace it is in now.

    :param groups: bits of the multicast groups to listen to.
    :raises KernelRefusal: no such socket here.
    """

    def __init__(self, groups: int = 0) -> None:
        # Importing pyroute2 takes 200 ms; only who speaks netlink pays for it.
        from pyroute2.netlink.rtnl.marshal import MarshalRtnl

        self._marshal: Any = MarshalRtnl()
        self._owner = threading.current_thread()
        self._sequence = 0
        try:
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
            )
        except OSError as error:
            raise NetlinkError(error.errno or 0, str(error)) from error
        for option in (_CAP_ACK, _EXT_ACK, _STRICT):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.bind((0, groups))
        self._socket.settimeout(_TIMEOUT)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def set_buffer(self, size: int) -> None:
        """How many bytes of announcements the kernel keeps before it drops some."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, size)
        except PermissionError:
            # Root of a user namespace only: the machine's limit applies.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def send(self, request: Request) -> None:
        """Have one thing done.

        :raises KernelRefusal: the kernel would not.
        """
        self._check_owner()
        self._put(request, _ACK)
        for kind, flags, body in self._answers():
            if kind == _ERROR:
                _raise_error(kind, flags, body)
                return

    def dump(self, request: Request) -> list[Any]:
        """Read a table: pyroute2 messages.  What changes during the reading is read again.

        :raises KernelRefusal: the kernel would not.
        """
        self._check_owner()
        for _ in range(_DUMP_ATTEMPTS):
            self._put(request, _DUMP)
            found: list[Any] = []
            if self._collect(found):
                return found
        raise NetlinkError(errno.EAGAIN, "the table changed faster than it could be read")

    def get(self, request: Request) -> list[Any]:
        """Read what *request* names, and not the whole table: pyroute2 messages.

        :raises KernelRefusal: there is no such thing.
        """
        self._check_owner()
        self._put(request, _ACK)
        found: list[Any] = []
        while True:
            data = self._receive()
            answers = list(_messages(data, self._sequence))
            done = [answer for answer in answers if answer[0] == _ERROR]
            for answer in done:
                _raise_error(*answer)
            if len(done) < len(answers):  # pyroute2 stumbles over some errors: never show it one
                found.extend(message for message in self._marshal.parse(data) if _is_entry(message))
            if done:
                return found

    def index(self, device: str) -> int:
        """The number of *device* within this namespace.

        :raises KernelRefusal: there is no such device.
        """
        self._check_owner()
        try:
            return socket.if_nametoindex(device)
        except OSError as error:
            raise NetlinkError(errno.ENODEV, f"there is no device {device} here") from error

    def name(self, index: int) -> str | None:
        """The device of that number, or None when it is gone."""
        self._check_owner()
        try:
            return socket.if_indextoname(index)
        except OSError:
            return None

    def receive(self) -> list[Any]:
        """What a multicast group announced: pyroute2 messages.

        :raises OSError: ENOBUFS when announcements were lost.
        """
        self._check_owner()
        return list(self._marshal.parse(self._socket.recv(_BUFFER)))

    def drain(self) -> None:
        """Throw away what was announced so far."""
        self._check_owner()
        self._socket.settimeout(0)
        try:
            while True:
                self._drop_one()
        except BlockingIOError:
            self._socket.settimeout(_TIMEOUT)

    def _drop_one(self) -> None:
        try:
            self._socket.recv(_BUFFER)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise

    def _collect(self, found: list[Any]) -> bool:
        """Read the answers to a dump; False when it was interrupted by a change."""
        whole = True
        while True:
            data = self._receive()
            found.extend(message for message in self._marshal.parse(data) if _is_entry(message))
            for kind, flags, body in _messages(data, self._sequence):
                whole = whole and not flags & _DUMP_INTERRUPTED
                if kind in (_ERROR, _DONE):
                    _raise_error(kind, flags, body)
                    return whole

    def _put(self, request: Request, flags: int) -> None:
        self._sequence += 1
        message = self._marshal.msg_map[request.kind]()
        for name, value in request.fields.items():
            message[name] = value
        message["attrs"] = list(request.attributes)
        header = message["header"]
        header["type"] = request.kind
        header["flags"] = request.flags | flags | _REQUEST
        header["sequence_number"] = self._sequence
        try:
            message.encode()
            self._socket.send(message.data)
        except struct.error as error:
            raise NetlinkError(errno.EINVAL, f"a number is out of range: {error}") from error
        except OSError as error:
            raise NetlinkError(error.errno or 0, str(error)) from error

    def _answers(self) -> Iterator[tuple[int, int, bytes]]:
        while True:
            yield from _messages(self._receive(), self._sequence)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(_BUFFER)
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


def _messages(data: bytes, sequence: int) -> Iterator[tuple[int, int, bytes]]:
    """Kind, flags and body of the messages that answer request number *sequence*."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, flags, number, _port = _HEADER.unpack_from(data, offset)
        if number == sequence:
            yield kind, flags, data[offset + _HEADER.size : offset + length]
        offset += (length + 3) & ~3


def _is_entry(message: Any) -> bool:
    return bool(message["header"]["type"] >= NEW_LINK)


def _raise_error(kind: int, flags: int, body: bytes) -> None:
    """Raise what an acknowledgement says; nothing when it says that all is well."""
    if len(body) < 4:
        return
    (number,) = struct.unpack_from("=i", body)
    if number:
        raise NetlinkError(-number, _words(kind, flags, body))


def _words(kind: int, flags: int, body: bytes) -> str:
    """The kernel's explanation in an extended acknowledgement, if it gives one."""
    if not flags & _ACK_ATTRIBUTES:
        return ""
    offset = 4 if kind == _DONE else _end_of_echo(flags, body)
    while offset + 4 <= len(body):
        size, attribute = struct.unpack_from("=HH", body, offset)
        if size < 4:
            break
        if attribute == _MESSAGE_ATTRIBUTE:
            return body[offset + 4 : offset + size].rstrip(b"\0").decode(errors="replace")
        offset += (size + 3) & ~3
    return ""


def _end_of_echo(flags: int, body: bytes) -> int:
    """Where the request that an error repeats ends: its header alone, or all of it."""
    if flags & _CAPPED:
        return 4 + _HEADER.size
    (length,) = struct.unpack_from("=I", body, 4)
    return 4 + ((int(length) + 3) & ~3)
