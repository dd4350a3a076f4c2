"""Probe of DNS servers in other namespaces."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Hashable, Mapping
from typing import TypeVar

from attrs import frozen

from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.model.values.address import IpAddress

K = TypeVar("K", bound=Hashable)

_PORT = 53
_QUERY = struct.pack("!6H", 0x6E66, 0, 1, 0, 0, 0) + b"\x07version\x04bind\x00\x00\x10\x00\x03"
"""Query of the server's version, which it answers without another server."""


@frozen
class DnsServer:
    """A DNS server, as it is reached within its own namespace."""

    netns: str
    address: IpAddress


def silent_servers(servers: Mapping[K, DnsServer], seconds: float) -> frozenset[K]:
    """Return the servers that do not answer within so many seconds; all are queried at once.

    A server that does not listen there is not among them: it may be configured not to.
    """
    with selectors.DefaultSelector() as open_:
        for key, server in servers.items():
            try:
                query_socket = netns.run_in(server.netns, _send_query, server.address)
            except (OSError, NetfwError):
                continue  # no server listens, which is detected elsewhere
            open_.register(query_socket, selectors.EVENT_READ, key)
        deadline = time.monotonic() + seconds
        while open_.get_map() and (left := deadline - time.monotonic()) > 0:
            for answered, _ in open_.select(left):
                open_.unregister(answered.fileobj)
                _close(answered)
        silent = [*open_.get_map().values()]
        for each in silent:
            _close(each)
        return frozenset(each.data for each in silent)


def _send_query(address: IpAddress) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    query_socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        query_socket.connect((str(address), _PORT))
        query_socket.send(_QUERY)
    except OSError:
        query_socket.close()
        raise
    return query_socket


def _close(key: selectors.SelectorKey) -> None:
    assert isinstance(key.fileobj, socket.socket)
    key.fileobj.close()
