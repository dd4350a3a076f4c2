"""Conntrack: the connections that the kernel tracks in one namespace."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Self

from netfw.errors import BackendError, BackendUnavailable
from netfw.linux.conntrack import codec
from netfw.linux.conntrack.entry import ConntrackEntry, Filter, TrackedConnection
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.raw_socket import NETLINK_NETFILTER, RawNetlinkSocket
from netfw.linux.netns import Namespace, run_in
from netfw.model.values.address import IpAddress

_RECEIVE_BUFFER = 1 << 20
_BATCH = 64
_FAMILIES = {None: 0, 4: socket.AF_INET, 6: socket.AF_INET6}
_ALL = Filter()


class Conntrack:
    """Lists and removes tracked connections, by netlink and without a fork.

    The sockets are opened in *namespace* and stay there, whichever thread uses them; one at a time.
    After an error, close it: the kernel may still be listing.

    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw lacks a privilege, or the kernel has no connection tracking.
    """

    def __init__(self, namespace: Namespace = None, *, timeout: float = 10.0) -> None:

        def open_sockets() -> tuple[RawNetlinkSocket, RawNetlinkSocket]:
            listing = _open_socket(timeout)
            try:
                return listing, _open_socket(timeout)
            except OSError:
                listing.close()
                raise

        try:
            self._listing, self._removal = (
                open_sockets() if namespace is None else run_in(namespace, open_sockets)
            )
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, "opening a conntrack socket", str(error)
            ) from error

    def connections(self, wanted: Filter = _ALL) -> tuple[TrackedConnection, ...]:
        """Return the connections that match *wanted*.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        # The kernel may list an entry twice when the table changes meanwhile.
        entries = {(entry.id, entry.raw): entry for entry in self._entries([wanted])}
        return tuple(entry.connection for entry in entries.values())

    def remove(self, *wanted: Filter) -> int:
        """Remove the connections that match any of *wanted*; return how many were removed.

        The table is listed once, and removed from meanwhile: the memory that this needs does not
        depend on how many connections there are.

        Connections that end by themselves meanwhile are not counted.  A new connection with the
        addresses of a listed one is not removed, unless it also has the same place in the
        kernel's memory, which is all that the kernel distinguishes them by.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        entries = self._entries(wanted)
        batches = iter(lambda: tuple(islice(entries, _BATCH)), ())
        return sum(map(self._delete, batches))

    def close(self) -> None:
        self._listing.close()
        self._removal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entries(self, wanted: Sequence[Filter]) -> Iterator[ConntrackEntry]:
        """Yield the entries that match any of *wanted*, some of them perhaps twice."""
        if not wanted:
            return
        filters = _FilterIndex(wanted)
        sequence = self._listing.next_sequence()
        with _translate_errors():
            self._listing.send(
                codec.dump_request(sequence, _FAMILIES[_common_family(wanted)], _mark(wanted))
            )
            for message in self._listing.replies({sequence}, filters.packed_addresses):
                if message.is_final:
                    _check(message.error_number)
                    break
                entry = codec.decode_entry(message.body)
                if filters.take(entry.connection):
                    yield entry

    def _delete(self, entries: Sequence[ConntrackEntry]) -> int:
        requests = {self._removal.next_sequence(): entry for entry in entries}
        removed, left = 0, len(requests)
        with _translate_errors():
            self._removal.send(
                b"".join(codec.delete_request(*request) for request in requests.items())
            )
            for message in self._removal.replies(requests.keys()):
                if message.error_number != errno.ENOENT:
                    _check(message.error_number)
                    removed += 1
                left -= 1
                if not left:
                    break
        return removed


class _FilterIndex:
    """Filters by the address that their connections share: an entry is compared with few."""

    def __init__(self, wanted: Sequence[Filter]) -> None:
        self._filters: dict[IpAddress | None, list[Filter]] = {}
        for each in wanted:
            self._filters.setdefault(each.shared_address, []).append(each)

    @property
    def packed_addresses(self) -> tuple[bytes, ...]:
        """Bytes of which every matching message has some; empty if there are none such."""
        addresses = [address for address in self._filters if address is not None]
        return () if None in self._filters else tuple(each.packed for each in addresses)

    def take(self, connection: TrackedConnection) -> bool:
        """Return whether any filter takes *connection*."""
        return any(
            each.takes(connection)
            for address in {None, *connection.addresses}
            for each in self._filters.get(address, ())
        )


def _open_socket(timeout: float) -> RawNetlinkSocket:
    return RawNetlinkSocket(NETLINK_NETFILTER, receive_buffer=_RECEIVE_BUFFER, timeout=timeout)


def _common_family(wanted: Sequence[Filter]) -> int | None:
    families = {each.family for each in wanted}
    return families.pop() if len(families) == 1 else None


def _mark(wanted: Sequence[Filter]) -> tuple[int, int] | None:
    """Return the mark, and its mask, that the kernel is to filter by: that of a single filter."""
    first = wanted[0]
    return (first.mark, first.mark_mask) if len(wanted) == 1 and first.mark is not None else None


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
