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
from contextlib import suppress

from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno

_SOL_NETLINK, _ADD_MEMBERSHIP, _LISTEN_ALL, _FORCED_BUFFER = 270, 1, 8, 33
_GROUPS = {"links": 1, "IPv4 addresses": 5, "IPv4 routes": 7, "IPv6 addresses": 9, "routes": 11}
_NEW_NUMBER, _GET_NUMBER = 88, 90
_REQUEST, _ACK = 0x1, 0x4
_NUMBER, _DESCRIPTOR = 1, 3
_HEADER, _ATTRIBUTE, _INT = struct.Struct("=IHHII4x"), struct.Struct("=HHi"), struct.Struct("=i")
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
            self._socket = _listening(buffer_size)
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
        self._socket.close()
        os.close(self._mounts)
        os.close(self._wake)

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        waiting.register(self._mounts, select.POLLPRI)
        waiting.register(self._wake, select.POLLIN)
        due: float | None = None
        while not self._closed:
            left = None if due is None else max(0.0, due - time.monotonic()) * 1000
            ready = {descriptor for descriptor, _ in waiting.poll(left)}
            if self._socket.fileno() in ready:
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
                _, ancillary, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(_INT.size))
            except BlockingIOError:
                return
            except OSError:  # there were more than it had room for
                with self._guard:
                    self._stirred |= self._heeded.keys()
                continue
            numbers = [_INT.unpack(data)[0] for _, _, data in ancillary]
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


def _listening(buffer_size: int) -> socket.socket:
    heard = socket.socket(
        socket.AF_NETLINK,
        socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
        socket.NETLINK_ROUTE,
    )
    try:
        heard.bind((0, 0))  # who has no number of his own hears nothing
        with suppress(PermissionError):  # root of a user namespace only: the machine's limit counts
            heard.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, buffer_size)
        heard.setsockopt(_SOL_NETLINK, _LISTEN_ALL, 1)
        for group in _GROUPS.values():
            heard.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
    except OSError:
        heard.close()
        raise
    return heard


def _number_of(descriptor: int) -> int:
    """What the calling thread's namespace calls another one; it gets a number if it has none."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked:
        asked.settimeout(30)
        which = _ATTRIBUTE.pack(_ATTRIBUTE.size, _DESCRIPTOR, descriptor)
        any_ = _ATTRIBUTE.pack(_ATTRIBUTE.size, _NUMBER, -1)
        _ask(asked, _NEW_NUMBER, _ACK, any_ + which)  # says so if it has one already
        answer = _ask(asked, _GET_NUMBER, 0, which)
    kind, (_, attribute, number) = _kind(answer), _ATTRIBUTE.unpack_from(answer, _HEADER.size)
    if kind != _NEW_NUMBER or attribute != _NUMBER or number < 0:
        raise OSError(0, "the kernel gave the namespace no number")
    return int(number)


def _ask(asked: socket.socket, kind: int, flags: int, body: bytes) -> bytes:
    size = _HEADER.size + len(body)
    asked.send(_HEADER.pack(size, kind, _REQUEST | flags, 1, 0) + body)
    return asked.recv(4096)


def _kind(message: bytes) -> int:
    return int(_HEADER.unpack_from(message)[1])


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
