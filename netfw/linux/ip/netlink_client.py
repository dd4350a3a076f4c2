"""Netlink client of one namespace: reads its network, and executes planned operations."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from socket import AF_INET, AF_INET6
from types import TracebackType
from typing import Self, TypeVar

from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.ip import netlink_decode, netlink_encode
from netfw.linux.ip.execute import Applied, execute
from netfw.linux.ip.ipv6 import why_no_ipv6_here
from netfw.linux.ip.netlink_socket import Netlink, NetlinkError, NetlinkRequest
from netfw.linux.ip.operations import NetworkOperation
from netfw.linux.ip.plan import BY_HAND
from netfw.linux.ip.values import (
    MAIN_TABLE,
    PROTOCOL_KEEPALIVED,
    PROTOCOL_RA,
    FoundAddress,
    IpRoute,
    IpRule,
    Link,
    Neighbour,
)
from netfw.linux.netns import Namespace

T = TypeVar("T")
_STATIC = BY_HAND | {PROTOCOL_RA, PROTOCOL_KEEPALIVED}


def device_exists(name: str) -> bool:
    """Return whether the calling thread's namespace has a device of this name, cheaply."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


class NetlinkClient:
    """A thread and a netlink socket within one namespace.

    1. Any thread may call; calls are executed one after the other, in the namespace.
    2. The namespace is the one that the name referred to for the constructing thread; it stays
       alive, even when deleted, until ``close``.
    3. ``close`` leaves no thread and no socket.

    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw may not enter it.
    """

    def __init__(self, namespace: Namespace = None) -> None:
        self._worker = netns.worker(namespace)
        self._where = "here" if namespace is None else f"in {namespace}"
        try:
            self._netlink = self._worker.run(Netlink)
        except NetlinkError as error:
            self._worker.close()
            raise error_from_errno(error.number, f"netlink {self._where}", error.message) from error

    def close(self) -> None:
        """Close the socket and stop the thread.  Idempotent."""
        self._worker.close()
        self._netlink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def apply(self, operations: Sequence[NetworkOperation]) -> Applied:
        """Execute *operations* in order; errors as of :func:`netfw.linux.ip.execute.execute`."""
        if not operations:
            return Applied()
        return self._worker.run(execute, self._netlink, operations)

    def run(self, function: Callable[[], T]) -> T:
        """Call *function* in the namespace, serialised with the other calls of this client."""
        return self._worker.run(function)

    def why_no_ipv6(self, device: str = "all") -> str | None:
        """Return why there is no IPv6 on *device*, or in the whole namespace; None if there is."""
        return self._worker.run(why_no_ipv6_here, device)

    def links(self) -> dict[str, Link]:
        """Return all devices, by name."""

        def read(netlink: Netlink) -> list[Link]:
            messages = netlink.dump(netlink_encode.read_links())
            names = dict(map(netlink_decode.link_name, messages))
            return [netlink_decode.link(message, names.get) for message in messages]

        return {link.name: link for link in self._read("ip link show", read)}

    def link(self, name: str) -> Link | None:
        """Return one device, if it exists; the cost does not depend on the number of devices."""

        def read(netlink: Netlink) -> list[Link]:
            return _kept(netlink.get(netlink_encode.read_link(name)), netlink_decode.link, netlink)

        try:
            (found,) = self._read(f"ip link show {name}", read)
        except NotFound:
            return None
        return found

    def addresses(self, device: str | None = None) -> tuple[FoundAddress, ...]:
        """Return the addresses of *device*, or of all devices.

        :raises NotFound: there is no such device.
        """

        def read(netlink: Netlink) -> list[FoundAddress]:
            index = netlink.index(device) if device is not None else 0
            messages = netlink.dump(netlink_encode.read_addresses(index))
            return _kept(messages, netlink_decode.address, netlink)

        return tuple(self._read(f"ip address show {device or ''}", read))

    def routes(self, table: int = MAIN_TABLE) -> tuple[IpRoute, ...]:
        """Return the routes of one table, of both families."""

        def read(netlink: Netlink) -> list[IpRoute]:
            messages = _dump_families(
                netlink, lambda family: netlink_encode.read_routes(family, table)
            )
            found = _kept(messages, netlink_decode.route, netlink)
            return [route for route in found if route.table == table]

        return tuple(self._read(f"ip route show table {table}", read))

    def static_routes(self, device: str | None = None) -> tuple[IpRoute, ...]:
        """Return the routes of all tables that netfw, an operator or an advertisement added.

        Those that the kernel has for each address are not decoded.

        :param device: the device of one of their next hops.
        :raises NotFound: there is no such device.
        """
        return self._read_routes(device, _is_static)

    def static_and_connected_routes(self, device: str | None = None) -> tuple[IpRoute, ...]:
        """Return the static routes of all tables, and the kernel's own of the main table.

        Parameter and errors as of `static_routes`.
        """
        return self._read_routes(
            device, lambda each: _is_static(each) or netlink_decode.is_connected_route(each)
        )

    def _read_routes(
        self, device: str | None, is_kept: Callable[[memoryview], bool]
    ) -> tuple[IpRoute, ...]:
        def read(netlink: Netlink) -> list[IpRoute]:
            index = netlink.index(device) if device is not None else 0
            messages = _dump_families(
                netlink, lambda family: netlink_encode.read_all_routes(family, index)
            )
            return _kept(filter(is_kept, messages), netlink_decode.route, netlink)

        return tuple(self._read("ip route show table all", read))

    def rules(self) -> tuple[IpRule, ...]:
        """Return the rules of both families, in the order the kernel tries them."""

        def read(netlink: Netlink) -> list[IpRule]:
            return _kept(
                _dump_families(netlink, netlink_encode.read_rules), netlink_decode.rule, netlink
            )

        return tuple(self._read("ip rule show", read))

    def neighbours(self) -> tuple[Neighbour, ...]:
        """Return the configured entries: permanent ones and proxies, not learned ones."""

        def read(netlink: Netlink) -> list[Neighbour]:
            requests = [netlink_encode.read_neighbours(proxy) for proxy in (False, True)]
            messages = [message for request in requests for message in netlink.dump(request)]
            return _kept(messages, netlink_decode.neighbour, netlink)

        return tuple(self._read("ip neighbour show", read))

    def proxies(self) -> tuple[Neighbour, ...]:
        """Return the addresses that are answered for others."""

        def read(netlink: Netlink) -> list[Neighbour]:
            return _kept(
                netlink.dump(netlink_encode.read_neighbours(True)),
                netlink_decode.neighbour,
                netlink,
            )

        return tuple(self._read("ip neighbour show proxy", read))

    def _read(self, what: str, read: Callable[[Netlink], T]) -> T:
        try:
            return self._worker.run(read, self._netlink)
        except NetlinkError as error:
            raise error_from_errno(error.number, f"{what} {self._where}", error.message) from error


def _is_static(message: memoryview) -> bool:
    return netlink_decode.route_protocol(message) in _STATIC


def _dump_families(netlink: Netlink, request: Callable[[int], NetlinkRequest]) -> list[memoryview]:
    """Dump both families; without IPv6 a kernel returns nothing for it, or IPv4's entries again."""
    return [
        message
        for version, family in ((4, AF_INET), (6, AF_INET6))
        for message in _dump_existing(netlink, request(version))
        if message[0] == family
    ]


def _dump_existing(netlink: Netlink, request: NetlinkRequest) -> list[memoryview]:
    """Dump a routing table; one that does not exist is empty, as it exists only while used."""
    try:
        return netlink.dump(request)
    except NetlinkError as error:
        if error.number != errno.ENOENT:
            raise
        return []


def _kept(
    messages: Iterable[memoryview],
    decoded: Callable[[netlink_decode.Body, netlink_decode.Names], T | None],
    netlink: Netlink,
) -> list[T]:
    names = cache(netlink.name)
    found = (decoded(message, names) for message in messages)
    return [value for value in found if value is not None]
