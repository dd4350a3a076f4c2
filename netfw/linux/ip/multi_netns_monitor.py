"""In which of many namespaces something changes; one socket and one thread for all of them.

The kernel passes what it announces in a namespace on to whoever listens in another one that has a
number for it.  No namespace is kept alive by that, as a socket of its own would.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.messages import (
    NLM_F_ACK,
    NetlinkMessage,
    parse_attributes,
    render_attribute,
)
from netfw.linux.netlink.raw_socket import RawNetlinkSocket

_GROUPS = {"links": 1, "IPv4 addresses": 5, "IPv4 routes": 7, "IPv6 addresses": 9, "routes": 11}
_NEW_NSID, _GET_NSID = 88, 90
_NSID_ATTRIBUTE, _DESCRIPTOR_ATTRIBUTE = 1, 3
_GENERIC, _INT = bytes(4), struct.Struct("=i")
_TIMEOUT = 30.0
_MOUNTS = "/proc/thread-self/mountinfo"

Tell = Callable[[frozenset[str]], None]
_Birth = tuple[int, int]
"""Inode and time: the kernel gives the inode of a namespace that is gone to one made after it."""


class MultiNetnsMonitor:
    """Tells *tell*, from a thread of its own until ``close``, in which namespaces something stirs.

    1. That is: links, addresses or routes changed, or the name refers to another namespace or to
       none.  What it was is not told; where something may have been missed, all are named.
    2. It is told *debounce* seconds after the first change, once for all that changes until then.
    3. Only of namespaces that `heed` was called for; one that was made anew needs it again.

    :raises BackendBroken: netfw may not listen; the message says what it lacks.
    :raises BackendUnavailable: the machine has no room for more open files.
    """

    def __init__(self, tell: Tell, debounce: float = 0.2, buffer_size: int = 1 << 20) -> None:
        self._tell, self._debounce = tell, debounce
        self._guard = threading.Lock()
        self._numbers: dict[int, str] = {}
        self._heeded: dict[str, _Birth] = {}
        self._stirred: set[str] = set()
        self._closed = False
        try:
            self._netlink = RawNetlinkSocket(
                socket.NETLINK_ROUTE,
                groups=_GROUPS.values(),
                all_namespaces=True,
                receive_buffer=buffer_size,
                timeout=0,
            )
            self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
            self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, "listening in all namespaces", str(error)
            ) from error
        self._thread = threading.Thread(target=self._run, name="netfw-stirring", daemon=True)
        self._thread.start()

    def watch(self, namespace: str) -> None:
        """Tell of *namespace*, as its name is understood now, from now on.

        :raises NotFound: there is no such namespace.
        :raises BackendBroken: netfw may not listen there.
        """
        descriptor = netns.open_namespace(namespace)
        try:
            birth = _birth(descriptor)
            number = _number_of(descriptor)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, f"listening in {namespace}", str(error)
            ) from error
        finally:
            os.close(descriptor)
        with self._guard:
            self._numbers[number] = namespace
            self._heeded[namespace] = birth

    def unwatch(self, namespace: str) -> None:
        """Tell of *namespace* no more."""
        with self._guard:
            self._heeded.pop(namespace, None)
            self._stirred.discard(namespace)

    def close(self) -> None:
        """Tell nothing more, and leave no thread.  Closing twice is closing once."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._netlink.close()
        os.close(self._mounts)
        os.close(self._wake)

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._netlink, select.POLLIN)
        waiting.register(self._mounts, select.POLLPRI)
        waiting.register(self._wake, select.POLLIN)
        due: float | None = None
        while not self._closed:
            left = None if due is None else max(0.0, due - time.monotonic()) * 1000
            ready = {descriptor for descriptor, _ in waiting.poll(left)}
            if self._netlink.fileno() in ready:
                self._hear()
            if self._mounts in ready:
                self._compare()
            if due is None and self._stirred:
                due = time.monotonic() + self._debounce
            elif due is not None and time.monotonic() >= due:
                due = None
                self._say()

    def _hear(self) -> None:
        """Of an announcement it counts only where it was made."""
        while True:
            try:
                numbers = self._netlink.receive_origin()
            except BlockingIOError:
                return
            except OSError:  # an overrun, or an announcement that the kernel could not build
                with self._guard:
                    self._stirred |= self._heeded.keys()
                continue
            with self._guard:
                named = {self._numbers.get(number, "") for number in numbers}
                self._stirred |= named & self._heeded.keys()

    def _compare(self) -> None:
        """Something was mounted or unmounted: perhaps what a name refers to."""
        with self._guard:
            heeded = dict(self._heeded)
        stirred = {name for name, birth in heeded.items() if not _is_still(name, birth)}
        with self._guard:
            self._stirred |= stirred & self._heeded.keys()

    def _say(self) -> None:
        with self._guard:
            stirred, self._stirred = frozenset(self._stirred), set()
        if stirred and not self._closed:
            self._tell(stirred)


def _number_of(descriptor: int) -> int:
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
