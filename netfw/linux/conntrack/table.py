"""Conntrack: the connections that the kernel tracks in one namespace."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from netfw.errors import BackendError, BackendUnavailable
from netfw.linux.conntrack import codec
from netfw.linux.conntrack.entry import Connection, Entry, Filter
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.raw_socket import NETLINK_NETFILTER, RawNetlinkSocket
from netfw.linux.netns import Namespace, run_in

_RECEIVE_BUFFER = 1 << 20
_BATCH = 64
_FAMILIES = {None: 0, 4: socket.AF_INET, 6: socket.AF_INET6}
_ALL = Filter()


class Conntrack:
    """Lists and removes tracked connections, by netlink and without a fork.

    The socket is opened in *namespace* and stays there, whichever thread uses it; one at a time.

    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw lacks a privilege, or the kernel has no connection tracking.
    """

    def __init__(self, namespace: Namespace = None, *, timeout: float = 10.0) -> None:

        def open_socket() -> RawNetlinkSocket:
            return RawNetlinkSocket(
                NETLINK_NETFILTER, receive_buffer=_RECEIVE_BUFFER, timeout=timeout
            )

        try:
            self._netlink = open_socket() if namespace is None else run_in(namespace, open_socket)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, "opening a conntrack socket", str(error)
            ) from error

    def connections(self, wanted: Filter = _ALL) -> tuple[Connection, ...]:
        """Return the connections that match *wanted*.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        return tuple(entry.connection for entry in self._entries(wanted))

    def remove(self, wanted: Filter = _ALL) -> int:
        """Remove the connections that match *wanted*; return how many were removed.

        Connections that end by themselves meanwhile are not counted.  A new connection with the
        addresses of a listed one is not removed, unless it also has the same place in the
        kernel's memory, which is all that the kernel distinguishes them by.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        entries = list(self._entries(wanted))
        batches = [entries[at : at + _BATCH] for at in range(0, len(entries), _BATCH)]
        return sum(map(self._delete, batches))

    def close(self) -> None:
        self._netlink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entries(self, wanted: Filter) -> Iterator[Entry]:
        mark = None if wanted.mark is None else (wanted.mark, wanted.mark_mask)
        sequence = self._netlink.next_sequence()
        entries: dict[tuple[int, bytes], Entry] = {}
        with _translate_errors():
            self._netlink.send(codec.dump_request(sequence, _FAMILIES[wanted.family], mark))
            for message in self._netlink.replies({sequence}):
                if message.is_final:
                    _check(message.error_number)
                    break
                entry = codec.decode_entry(message.body)
                # The kernel may list an entry twice when the table changes meanwhile.
                entries[entry.id, entry.raw] = entry
        return (entry for entry in entries.values() if wanted.takes(entry.connection))

    def _delete(self, entries: Sequence[Entry]) -> int:
        requests = {self._netlink.next_sequence(): entry for entry in entries}
        removed, left = 0, len(requests)
        with _translate_errors():
            self._netlink.send(
                b"".join(codec.delete_request(*request) for request in requests.items())
            )
            for message in self._netlink.replies(requests.keys()):
                if message.error_number != errno.ENOENT:
                    _check(message.error_number)
                    removed += 1
                left -= 1
                if not left:
                    break
        return removed


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise BackendUnavailable("conntrack: the kernel did not answer in time") from error
    except OSError as error:
        raise error_from_errno(error.errno or 0, "conntrack", str(error)) from error


def _check(number: int) -> None:
    if number:
        error = error_from_errno(number, "conntrack", os.strerror(number))
        raise error if isinstance(error, BackendError) else BackendUnavailable(str(error))
