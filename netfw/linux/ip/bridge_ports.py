"""Which bridge each device is on, and nothing else of it.

Reading whole devices costs a hundred times as much, and a firewall asks for hundreds at once.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator

from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netns import Namespace, run_in

_ROUTE = 0
_GET_LINK, _NEW_LINK, _ERROR, _DONE = 18, 16, 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_NAME, _MASTER, _EXTENT = 3, 10, 29
_SKIP_STATISTICS = 8
_TYPE = 0x3FFF
_BUFFER = 1 << 18
_TIMEOUT = 10.0
_ABSENT = frozenset({19, 22, 34, 2})
"""ENODEV and what else the kernel says of a name that no device has."""

_HEADER = struct.Struct("=IHHII")
_INFO = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")


def read_bridge_masters(
    names: Iterable[str] | None = None, namespace: Namespace = None
) -> dict[str, str | None]:
    """The devices called *names* (None: all) that there are, each with what it is a port of.

    :raises NotFound: there is no such namespace.
    :raises BackendError: the kernel does not answer.
    """
    wanted = None if names is None else tuple(names)
    try:
        return run_in(namespace, _read, wanted)
    except OSError as error:
        raise error_from_errno(error.errno or 0, "reading devices", str(error)) from error


def _read(names: tuple[str, ...] | None) -> dict[str, str | None]:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _ROUTE) as wire:
        wire.settimeout(_TIMEOUT)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        wire.bind((0, 0))
        if names is None:
            found = list(_ask(wire, _DUMP))
        else:
            found = [each for name in names for each in _ask(wire, 0, name)]
    by_index = {index: name for index, name, _ in found}
    return {
        name: None if not master else by_index.get(master) or _name_of(master)
        for _, name, master in found
    }


def _name_of(index: int) -> str | None:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return None


def _ask(wire: socket.socket, flags: int, name: str = "") -> Iterator[tuple[int, str, int]]:
    """The devices that the kernel tells of: index, name, index of the master or 0."""
    body = _INFO.pack(0, 0, 0, 0, 0) + _attribute(_EXTENT, struct.pack("=I", _SKIP_STATISTICS))
    if name:
        body += _attribute(_NAME, name.encode() + b"\0")
    wire.send(_HEADER.pack(_HEADER.size + len(body), _GET_LINK, _REQUEST | flags, 1, 0) + body)
    while True:
        data = wire.recv(_BUFFER)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, _, _, _ = _HEADER.unpack_from(data, at)
            part = memoryview(data)[at + _HEADER.size : at + length]
            at += length + 3 & ~3
            if kind == _NEW_LINK:
                yield _link(part)
                if not flags:
                    return
            elif kind == _DONE:
                return
            elif kind == _ERROR:
                number = -struct.unpack_from("=i", part)[0]
                if number not in _ABSENT:
                    raise OSError(number, os.strerror(number))
                return


def _link(part: memoryview) -> tuple[int, str, int]:
    index = _INFO.unpack_from(part)[2]
    name, master, at = "", 0, _INFO.size
    while at + _ATTRIBUTE.size <= len(part):
        length, kind = _ATTRIBUTE.unpack_from(part, at)
        if length < _ATTRIBUTE.size:
            break
        value = part[at + _ATTRIBUTE.size : at + length]
        if kind & _TYPE == _NAME:
            name = bytes(value).rstrip(b"\0").decode(errors="backslashreplace")
        elif kind & _TYPE == _MASTER:
            master = int(struct.unpack("=I", value)[0])
        at += length + 3 & ~3
    return index, name, master


def _attribute(kind: int, value: bytes) -> bytes:
    padding = b"\0" * (-len(value) % 4)
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + padding
