"""Bridge ports: the master of each device, and nothing else of it.

Reading whole devices costs a hundred times as much, and a firewall reads hundreds at once.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator

from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.messages import NLM_F_DUMP, parse_attributes, render_attribute
from netfw.linux.netlink.raw_socket import RawNetlinkSocket
from netfw.linux.netns import Namespace, run_in

_GET_LINK = 18
_NAME, _MASTER, _EXTENT = 3, 10, 29
_SKIP_STATISTICS = 8
_RECEIVE_BUFFER = 1 << 18
_TIMEOUT = 10.0
_ABSENT = frozenset({19, 22, 34, 2})
"""ENODEV, and the other errors of the kernel for a name that no device has."""

_INFO = struct.Struct("=BxHiII")


def read_bridge_masters(
    names: Iterable[str] | None = None, namespace: Namespace = None
) -> dict[str, str | None]:
    """Return the devices called *names* (None: all) that exist, each with its master.

    :raises NotFound: there is no such namespace.
    :raises BackendError: the kernel does not answer.
    """
    wanted = None if names is None else tuple(names)
    try:
        return run_in(namespace, _read, wanted)
    except OSError as error:
        raise error_from_errno(error.errno or 0, "reading devices", str(error)) from error


def _read(names: tuple[str, ...] | None) -> dict[str, str | None]:
    with RawNetlinkSocket(
        socket.NETLINK_ROUTE, receive_buffer=_RECEIVE_BUFFER, timeout=_TIMEOUT
    ) as netlink:
        if names is None:
            links = list(_request_links(netlink, NLM_F_DUMP))
        else:
            links = [link for name in names for link in _request_links(netlink, 0, name)]
    by_index = {index: name for index, name, _ in links}
    return {
        name: None if not master else by_index.get(master) or _name_of(master)
        for _, name, master in links
    }


def _name_of(index: int) -> str | None:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return None


def _request_links(
    netlink: RawNetlinkSocket, flags: int, name: str = ""
) -> Iterator[tuple[int, str, int]]:
    """Yield index, name, and index of the master or 0: of all devices, or of one if it exists."""
    body = _INFO.pack(0, 0, 0, 0, 0)
    body += render_attribute(_EXTENT, struct.pack("=I", _SKIP_STATISTICS))
    if name:
        body += render_attribute(_NAME, name.encode() + b"\0")
    sequence = netlink.request(_GET_LINK, body, flags)
    for message in netlink.replies({sequence}):
        if message.is_final:
            number = message.error_number
            if number and number not in _ABSENT:
                raise OSError(number, os.strerror(number))
            return
        yield _parse_link(message.body)
        if not flags:
            return


def _parse_link(body: memoryview) -> tuple[int, str, int]:
    index = _INFO.unpack_from(body)[2]
    attributes = parse_attributes(body[_INFO.size :])
    name = bytes(attributes.get(_NAME, b"")).rstrip(b"\0").decode(errors="backslashreplace")
    master = attributes.get(_MASTER)
    return index, name, 0 if master is None else int(struct.unpack("=I", master)[0])
