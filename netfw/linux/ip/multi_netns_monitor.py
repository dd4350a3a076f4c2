"""Netlink monitor of many network namespaces, with two sockets and one thread.

The kernel passes the multicast of a namespace on to sockets in another one that has an id for it
(NETLINK_LISTEN_ALL_NSID).  Unlike sockets in each namespace, this keeps none of them alive.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.messages import (
    NLM_F_ACK,
    NetlinkMessage,
    parse_attributes,
    render_attribute,
)
from netfw.linux.netlink.nftables_generation import GENERATION_GROUP, NEW_GENERATION
from netfw.linux.netlink.raw_socket import NETLINK_NETFILTER, RawNetlinkSocket

_GROUPS = {
    "links": 1,
    "IPv4 addresses": 5,
    "IPv4 routes": 7,
    "IPv4 policy rules": 8,
    "IPv6 addresses": 9,
    "IPv6 routes": 11,
    "IPv6 policy rules": 19,
}
_NEW_NSID, _GET_NSID = 88, 90
_NSID_ATTRIBUTE, _DESCRIPTOR_ATTRIBUTE = 1, 3
_GENERIC, _INT = bytes(4), struct.Struct("=i")
_TIMEOUT = 30.0
_MOUNTS = "/proc/thread-self/mountinfo"

Callback = Callable[[frozenset[str]], None]
_Birth = tuple[int, int]
"""Inode and ctime: the kernel reuses the inode of a deleted namespace."""


class MultiNetnsMonitor:
    """Calls *callback*, from a thread of its own until ``close``, with the namespaces that changed.

    1. A namespace has changed when its links, addresses, routes, policy rules or nf_tables rules
       (those of iptables-nft, not of iptables-legacy) did, or when its name refers to another
       namespace or to none.  The change itself is not reported; when events may have been lost, all
       watched namespaces are reported.
    2. The call comes *debounce* seconds after the first change, once for all changes until then.
    3. Only namespaces for which `watch` was called are reported; one that was made anew needs
       another call.

    :raises BackendBroken: netfw may not listen; the message says what it lacks.
    :raises BackendUnavailable: the machine has no room for more open files, or threads.
    """

    def __init__(
        self, callback: Callback, debounce: float = 0.2, buffer_size: int = 1 << 20
    ) -> None:
        self._callback, self._debounce = callback, debounce
        self._guard = threading.Lock()
        self._by_nsid: dict[int, str] = {}
        self._watched: dict[str, _Birth] = {}
        self._changed: set[str] = set()
        self._delayed: dict[str, float] = {}
        """Namespaces to report later, and when."""
        self._closed = False
        what = "listening in all namespaces"
        with ExitStack() as opened:
            try:
                self._sockets = _open_sockets(buffer_size)
                for each in self._sockets:
                    opened.callback(each.close)
                self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, self._mounts)
                self._wake = os.eventfd(0, os.EFD_CLOEXEC)
                opened.callback(os.close, self._wake)
                self._thread = start_daemon_thread("netfw-netns-monitor", what, self._run)
            except OSError as error:
                raise error_from_errno(error.errno or 0, what, str(error)) from error
            self._opened = opened.pop_all()

    def watch(self, namespace: str) -> None:
        """Watch the namespace that the name refers to now.

        :raises NotFound: there is no such namespace.
        :raises BackendBroken: netfw may not listen there.
        """
        descriptor = netns.open_namespace(namespace)
        try:
            birth = _birth(descriptor)
            with self._guard:
                if self._watched.get(namespace) == birth:
                    return
            number = _assign_nsid(descriptor)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, f"listening in {namespace}", str(error)
            ) from error
        finally:
            os.close(descriptor)
        with self._guard:
            self._by_nsid[number] = namespace
            self._watched[namespace] = birth

    def unwatch(self, namespace: str) -> None:
        """Stop watching *namespace*."""
        with self._guard:
            self._watched.pop(namespace, None)
            self._changed.discard(namespace)
            self._delayed.pop(namespace, None)

    def report(self, namespace: str, delay: float = 0.0) -> None:
        """Report *namespace*, if it is watched, as one that has changed, after *delay* seconds."""
        with self._guard:
            if self._closed or namespace not in self._watched:
                return
            due = time.monotonic() + delay
            self._delayed[namespace] = min(due, self._delayed.get(namespace, due))
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Stop the thread and close the socket.  Idempotent."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._opened.close()

    def _run(self) -> None:
        poller = select.poll()
        for each in self._sockets:
            poller.register(each, select.POLLIN)
        poller.register(self._mounts, select.POLLPRI)
        poller.register(self._wake, select.POLLIN)
        due: float | None = None
        while not self._closed:
            ready = {descriptor for descriptor, _ in poller.poll(self._take_delayed(due))}
            for each in self._sockets:
                if each.fileno() in ready:
                    self._receive(each)
            if self._mounts in ready:
                self._compare()
            if self._wake in ready:
                os.eventfd_read(self._wake)
            if due is None and self._changed:
                due = time.monotonic() + self._debounce
            elif due is not None and time.monotonic() >= due:
                due = None
                self._publish()

    def _take_delayed(self, due: float | None) -> float | None:
        """Mark the namespaces as changed whose delay is over.

        Return the milliseconds until the next one, or until *due*; ``None``: for ever.
        """
        now = time.monotonic()
        with self._guard:
            over = {name for name, when in self._delayed.items() if when <= now}
            self._changed |= over
            for name in over:
                del self._delayed[name]
            times = [*self._delayed.values()]
            if due is not None or self._changed:
                times.append(now if due is None else due)
        return max(0.0, min(times) - now) * 1000 if times else None

    def _receive(self, netlink: RawNetlinkSocket) -> None:
        """Read the origin of each announcement; its contents are not used."""
        while True:
            try:
                nsids = netlink.receive_origin()
            except BlockingIOError:
                return
            except OSError:  # an overrun, or an announcement that the kernel could not build
                with self._guard:
                    self._changed |= self._watched.keys()
                continue
            with self._guard:
                named = {self._by_nsid.get(number, "") for number in nsids}
                self._changed |= named & self._watched.keys()

    def _compare(self) -> None:
        """Find the names that refer to another namespace after a mount or an unmount."""
        with self._guard:
            watched = dict(self._watched)
        changed = {name for name, birth in watched.items() if not _is_still(name, birth)}
        with self._guard:
            self._changed |= changed & self._watched.keys()

    def _publish(self) -> None:
        with self._guard:
            changed, self._changed = frozenset(self._changed), set()
        if changed and not self._closed:
            self._callback(changed)


def _open_sockets(buffer_size: int) -> tuple[RawNetlinkSocket, RawNetlinkSocket]:
    network = RawNetlinkSocket(
        socket.NETLINK_ROUTE,
        groups=_GROUPS.values(),
        all_namespaces=True,
        receive_buffer=buffer_size,
        timeout=0,
    )
    try:
        rules = RawNetlinkSocket(
            NETLINK_NETFILTER,
            groups=[GENERATION_GROUP],
            all_namespaces=True,
            receive_buffer=buffer_size,
            only=NEW_GENERATION,
            timeout=0,
        )
    except OSError:
        network.close()
        raise
    return network, rules


def _assign_nsid(descriptor: int) -> int:
    """Return the id of another namespace in the calling thread's one; assign one if it has none."""
    target = render_attribute(_DESCRIPTOR_ATTRIBUTE, _INT.pack(descriptor))
    any_id = render_attribute(_NSID_ATTRIBUTE, _INT.pack(-1))
    with RawNetlinkSocket(socket.NETLINK_ROUTE, timeout=_TIMEOUT) as netlink:
        # Refused with EEXIST if it has one already.
        _exchange(netlink, _NEW_NSID, _GENERIC + any_id + target, NLM_F_ACK)
        reply = _exchange(netlink, _GET_NSID, _GENERIC + target)
    nsid = None
    if reply.kind == _NEW_NSID:
        nsid = parse_attributes(reply.body[len(_GENERIC) :]).get(_NSID_ATTRIBUTE)
    number = -1 if nsid is None else int(_INT.unpack(nsid)[0])
    if number < 0:
        raise OSError(0, "the kernel gave the namespace no number")
    return number


def _exchange(netlink: RawNetlinkSocket, kind: int, body: bytes, flags: int = 0) -> NetlinkMessage:
    return next(netlink.replies({netlink.request(kind, body, flags)}))


def _birth(descriptor: int) -> _Birth:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_ctime_ns


def _is_still(name: str, birth: _Birth) -> bool:
    try:
        descriptor = netns.open_namespace(name)
    except NetfwError:
        return False
    try:
        return _birth(descriptor) == birth
    finally:
        os.close(descriptor)
