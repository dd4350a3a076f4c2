"""What changes in a namespace, told at once: the kernel's own announcements."""

from __future__ import annotations

import enum
import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any, Self

from attrs import frozen

from netfw.drivers.events import FeedLost
from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.ip import netlink_decode, netlink_encode, netlink_socket
from netfw.linux.ip.netlink_socket import Netlink, NetlinkError
from netfw.linux.ip.values import FoundAddress, Link, Neighbour, Route, Rule
from netfw.linux.netns import Namespace


class NetlinkGroups(enum.IntFlag):
    """What one can listen to."""

    LINKS = 0x1
    NEIGHBOURS = 0x4
    ADDRESSES = 0x10 | 0x100
    ROUTES = 0x40 | 0x400
    RULES = 0x80 | 0x40000


@frozen
class NetlinkEvent:
    """Something is new or different, or is *gone*."""

    value: Link | FoundAddress | Route | Neighbour | Rule
    gone: bool = False


Sink = Callable[[NetlinkEvent | FeedLost], None]
"""Takes a change and only enqueues it: it neither blocks nor raises."""


class NetlinkMonitor:
    """Tells *sink* every change in *namespace*, from a thread of its own, until ``close``.

    1. What changes after the constructor has returned is told, in order.
    2. When the kernel had to drop announcements, :class:`FeedLost` comes in their place; the
       feed goes on, and whoever keeps a picture reads everything again.
    3. ``close`` leaves no thread and no socket.  A feed that cannot go on says so by a last
       :class:`FeedLost`; what a sink raises ends the feed and goes to ``threading.excepthook``.

    :raises ValueError: that cannot be the name of a namespace.
    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw may not enter it, or may not listen.
    """

    def __init__(
        self,
        namespace: Namespace,
        sink: Sink,
        topics: NetlinkGroups = NetlinkGroups.LINKS
        | NetlinkGroups.ADDRESSES
        | NetlinkGroups.ROUTES,
        buffer_size: int = 1 << 21,
    ) -> None:
        netns.path_of(namespace)
        self._sink, self._topics, self._buffer_size = sink, topics, buffer_size
        self._names: dict[int, str] = {}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        opened: Future[None] = Future()
        # A daemon: who forgets to close a feed can still end the process.
        self._thread = threading.Thread(
            target=self._main, args=(opened,), name=f"feed-{namespace or 'own'}", daemon=True
        )
        try:
            netns.run_in(namespace, self._thread.start)
            opened.result()
        except NetlinkError as error:
            self.close()
            raise error_from_errno(error.number, f"listening in {namespace}", error.said) from error
        except NetfwError:
            self.close()
            raise

    def close(self) -> None:
        """Stop telling.  Closing twice is closing once."""
        if self._wake < 0:
            return
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._wake)
        self._wake = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _main(self, opened: Future[None]) -> None:
        with ExitStack() as sockets:
            try:
                self._announced = sockets.enter_context(closing(Netlink(int(self._groups))))
                self._announced.set_buffer(self._buffer_size)
                self._asked = sockets.enter_context(closing(Netlink()))
                self._learn_names()
            except NetlinkError as error:
                opened.set_exception(error)
                return
            opened.set_result(None)
            try:
                self._listen()
            except (NetlinkError, OSError) as error:
                self._sink(FeedLost(f"the feed ended and has to be opened anew: {error}"))

    @property
    def _groups(self) -> NetlinkGroups:
        """Links always: they tell the names of devices."""
        return self._topics | NetlinkGroups.LINKS

    def _listen(self) -> None:
        waiting = select.poll()
        waiting.register(self._announced, select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        while self._wake not in {descriptor for descriptor, _ in waiting.poll()}:
            try:
                messages = self._announced.receive()
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._start_over()
            else:
                self._tell(messages)

    def _start_over(self) -> None:
        # Until its queue is empty the kernel drops further announcements without a word: only
        # what happens after that is told again.
        self._announced.drain()
        self._learn_names()
        self._sink(FeedLost("the kernel dropped announcements of its networking tables"))

    def _tell(self, messages: Iterable[Any]) -> None:
        for message in messages:
            kind = message["header"]["type"]
            if kind == netlink_socket.NEW_LINK:
                self._names[message["index"]] = message.get_attr("IFLA_IFNAME")
            change = _change(message, kind, self._names.get)
            if change is not None and self._is_asked_for(change):
                self._sink(change)
            if change is not None and change.gone and isinstance(change.value, Link):
                self._names.pop(change.value.index, None)

    def _is_asked_for(self, change: NetlinkEvent) -> bool:
        return NetlinkGroups.LINKS in self._topics or not isinstance(change.value, Link)

    def _learn_names(self) -> None:
        for message in self._asked.dump(netlink_encode.read_links()):
            self._names[message["index"]] = message.get_attr("IFLA_IFNAME")


def _change(message: Any, kind: int, names: netlink_decode.Names) -> NetlinkEvent | None:
    value: Link | FoundAddress | Route | Neighbour | Rule | None = None
    match kind:
        case netlink_socket.NEW_LINK | netlink_socket.DEL_LINK if (
            message["family"] == socket.AF_UNSPEC
        ):
            value = netlink_decode.link(message, names)
        case netlink_socket.NEW_ADDRESS | netlink_socket.DEL_ADDRESS:
            value = netlink_decode.address(message, names)
        case netlink_socket.NEW_ROUTE | netlink_socket.DEL_ROUTE:
            value = netlink_decode.route(message, names)
        case netlink_socket.NEW_NEIGHBOUR | netlink_socket.DEL_NEIGHBOUR:
            value = netlink_decode.neighbour(message, names)
        case netlink_socket.NEW_RULE | netlink_socket.DEL_RULE:
            value = netlink_decode.rule(message, names)
    return None if value is None else NetlinkEvent(value, gone=kind in netlink_socket.REMOVALS)
