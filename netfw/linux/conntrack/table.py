"""Conntrack: the connections that the kernel tracks in one namespace."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Container, Iterator, Sequence
from itertools import count
from typing import Self

from netfw.errors import BackendError, BackendUnavailable, NetfwError
from netfw.linux.conntrack import codec
from netfw.linux.conntrack.entry import Connection, Entry, Filter
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netns import Namespace, run_in

_NETLINK_NETFILTER = 12
_BUFFER = 1 << 20
_BATCH = 64
_FAMILIES = {None: 0, 4: socket.AF_INET, 6: socket.AF_INET6}
_ALL = Filter()


class Conntrack:
    """Lists and removes tracked connections, by netlink and without a fork.

    The socket is opened in *namespace* and stays there, whichever thread uses it; one at a time.

    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw may not, or the kernel has no connection tracking.
    """

    def __init__(self, namespace: Namespace = None, *, timeout: float = 10.0) -> None:
        self._sequence = count(1)
        try:
            self._socket = _open() if namespace is None else run_in(namespace, _open)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, "opening a conntrack socket", str(error)
            ) from error
        self._socket.settimeout(timeout)

    def connections(self, wanted: Filter = _ALL) -> tuple[Connection, ...]:
        """The connections that *wanted* means.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        return tuple(entry.connection for entry in self._entries(wanted))

    def remove(self, wanted: Filter = _ALL) -> int:
        """Remove the connections that *wanted* means; how many were removed.

        What ended by itself meanwhile is not counted.  A new connection with the addresses of one
        that was listed is not removed, unless it also got its place in the kernel's memory, which
        is all that the kernel tells them apart by.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        entries = list(self._entries(wanted))
        batches = [entries[at : at + _BATCH] for at in range(0, len(entries), _BATCH)]
        return sum(map(self._delete, batches))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entries(self, wanted: Filter) -> Iterator[Entry]:
        mark = None if wanted.mark is None else (wanted.mark, wanted.mark_mask)
        sequence = next(self._sequence)
        found: dict[tuple[int, bytes], Entry] = {}
        self._send(codec.dump_request(sequence, _FAMILIES[wanted.family], mark))
        for kind, body in self._answers({sequence}):
            if codec.is_entry(kind):
                entry = codec.decode_entry(body)
                # The kernel may show an entry twice when the table changes under its hands.
                found[entry.id, entry.raw] = entry
            else:
                _check(codec.error_number(body))
                break
        return (entry for entry in found.values() if wanted.takes(entry.connection))

    def _delete(self, entries: Sequence[Entry]) -> int:
        requests = {next(self._sequence): entry for entry in entries}
        self._send(b"".join(codec.delete_request(*request) for request in requests.items()))
        removed, left = 0, len(requests)
        for _, body in self._answers(requests.keys()):
            number = codec.error_number(body)
            if number != errno.ENOENT:
                _check(number)
                removed += 1
            left -= 1
            if not left:
                break
        return removed

    def _send(self, data: bytes) -> None:
        try:
            self._socket.send(data)
        except OSError as error:
            raise _translated(error) from error

    def _answers(self, sequences: Container[int]) -> Iterator[tuple[int, memoryview]]:
        """What the kernel answers to *sequences*; left-overs of abandoned requests are skipped."""
        while True:
            try:
                data = self._socket.recv(_BUFFER)
            except OSError as error:
                raise _translated(error) from error
            for kind, sequence, body in codec.messages(data):
                if sequence in sequences:
                    yield kind, body


def _open() -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC,
                           _NETLINK_NETFILTER)  # fmt: skip
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    opened.bind((0, 0))
    return opened


def _translated(error: OSError) -> NetfwError:
    if isinstance(error, TimeoutError):
        return BackendUnavailable("conntrack: the kernel did not answer in time")
    return error_from_errno(error.errno or 0, "conntrack", str(error))


def _check(number: int) -> None:
    if number:
        error = error_from_errno(number, "conntrack", os.strerror(number))
        raise error if isinstance(error, BackendError) else BackendUnavailable(str(error))
