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
from netfw.linux import decode, encode, netlink, netns
from netfw.linux.failure import translate
from netfw.linux.netlink import KernelRefusal, Netlink
from netfw.linux.netns import Namespace
from netfw.linux.values import FoundAddress, Link, Neighbour, Route, Rule


class Topic(enum.IntFlag):
    """What one can listen to."""

    LINKS = 0x1
    NEIGHBOURS = 0x4
    ADDRESSES = 0x10 | 0x100
    ROUTES = 0x40 | 0x400
    RULES = 0x80 | 0x40000


@frozen
class Change:
    """Something is new or different, or is *gone*."""

    value: Link | FoundAddress | Route | Neighbour | Rule
    gone: bool = False


Sink = Callable[[Change | FeedLost], None]
"""Takes a change and only enqueues it: it neither blocks nor raises."""


class Feed:
    """Tells *sink* every change in *namespace*, from a thread of its own, until ``close``.

    1. What changes after the constructor has returned is told, in order.
    2. When the kernel had to drop announcements, :class:`FeedLost` comes in their place; the
       feed goes on, and whoever keeps a picture reads everything again.
    3. ``close`` leaves no thread and no socket.  A feed that can not go on says so by a last
       :class:`FeedLost`; what a sink raises ends the feed and goes to ``threading.excepthook``.

    :raises ValueError: that can not be the name of a namespace.
    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw may not enter it, or may not listen.
    """

    def __init__(
        self,
        namespace: Namespace,
        sink: Sink,
        topics: Topic = Topic.LINKS | Topic.ADDRESSES | Topic.ROUTES,
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
        except KernelRefusal as error:
            self.close()
            raise translate(error.number, f"listening in {namespace}", error.said) from error
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
            except KernelRefusal as error:
                opened.set_exception(error)
                return
            opened.set_result(None)
            try:
                self._listen()
            except (KernelRefusal, OSError) as error:
                self._sink(FeedLost(f"the feed ended and has to be opened anew: {error}"))

    @property
    def _groups(self) -> Topic:
        """Links always: they tell the names of devices."""
        return self._topics | Topic.LINKS

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
            if kind == netlink.NEW_LINK:
                self._names[message["index"]] = message.get_attr("IFLA_IFNAME")
            change = _change(message, kind, self._names.get)
            if change is not None and self._is_asked_for(change):
                self._sink(change)
            if change is not None and change.gone and isinstance(change.value, Link):
                self._names.pop(change.value.index, None)

    def _is_asked_for(self, change: Change) -> bool:
        return Topic.LINKS in self._topics or not isinstance(change.value, Link)

    def _learn_names(self) -> None:
        for message in self._asked.dump(encode.read_links()):
            self._names[message["index"]] = message.get_attr("IFLA_IFNAME")


def _change(message: Any, kind: int, names: decode.Names) -> Change | None:
    value: Link | FoundAddress | Route | Neighbour | Rule | None = None
    match kind:
        case netlink.NEW_LINK | netlink.DEL_LINK if message["family"] == socket.AF_UNSPEC:
            value = decode.link(message, names)
        case netlink.NEW_ADDRESS | netlink.DEL_ADDRESS:
            value = decode.address(message, names)
        case netlink.NEW_ROUTE | netlink.DEL_ROUTE:
            value = decode.route(message, names)
        case netlink.NEW_NEIGHBOUR | netlink.DEL_NEIGHBOUR:
            value = decode.neighbour(message, names)
        case netlink.NEW_RULE | netlink.DEL_RULE:
            value = decode.rule(message, names)
    return None if value is None else Change(value, gone=kind in netlink.REMOVALS)
