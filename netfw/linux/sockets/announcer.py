"""Announcer: repeats announcements of addresses in the background, for all namespaces."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice, takewhile
from typing import Self

from attrs import evolve, frozen

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import NetfwError
from netfw.linux.sockets.address_announcement import announce_addresses
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.device_names import check_device_name

LOG = logging.getLogger(__name__)

_BATCH = 256
"""Limit of addresses that are announced between two looks at the queue."""


@frozen
class _Key:
    namespace: str
    device: str
    address: IpAddress


@frozen(kw_only=True)
class _Entry:
    key: _Key
    router: bool
    arp_destination: Mac | None
    rounds: int
    due: float


class Announcer:
    """One thread that announces addresses by gratuitous ARP and unsolicited advertisements.

    1. `announce` and `cancel` only change the queue: the caller never waits for a frame.
    2. Each address is announced at once and then repeated, as some frames are lost; announcing it
       again starts its rounds anew.  New announcements go before repetitions.
    3. The queue holds at most *limit* addresses.  In a full queue a new address takes the place of
       the repetition that is due next; without one, it is left out, and that is logged.
    4. After `cancel` an address is announced no more, apart from a frame that is being sent.
    5. An announcement that the kernel refuses is logged and counts as sent.
    6. `close` drops what is queued and leaves no thread.

    Names of namespaces are those of the thread that constructs the announcer.

    :param interval: seconds between two rounds.
    :raises BackendUnavailable: the machine has no thread left.
    """

    def __init__(self, *, rounds: int = 3, interval: float = 1.0, limit: int = 10_000) -> None:
        self._rounds, self._interval, self._limit = rounds, interval, limit
        self._changed = threading.Condition()
        self._first: dict[_Key, _Entry] = {}
        self._repeats: dict[_Key, _Entry] = {}
        """Repetitions in the order in which they are due."""
        self._sending: dict[_Key, _Entry] = {}
        self._closed = False
        self._thread = start_daemon_thread(
            "netfw-announcer", "addresses cannot be announced", self._run
        )

    def announce(
        self,
        namespace: str,
        device: str,
        addresses: Iterable[IpAddress],
        *,
        router: bool = False,
        arp_destination: Mac | None = None,
        rounds: int | None = None,
    ) -> None:
        """Queue *addresses* of a device; *rounds* is that of the announcer unless given.

        :param router: whether IPv6 neighbours may take the sender for a router.
        :raises ValueError: not a device name, or no round.
        """
        check_device_name(device)
        if (count := self._rounds if rounds is None else rounds) < 1:
            raise ValueError(f"announcing in {count} rounds: at least 1")
        with self._changed:
            left_out = [
                entry.key.address
                for entry in (
                    _Entry(
                        key=_Key(namespace, device, address),
                        router=router,
                        arp_destination=arp_destination,
                        rounds=count,
                        due=0.0,
                    )
                    for address in addresses
                )
                if not self._put(entry)
            ]
            self._changed.notify()
        if left_out:
            LOG.warning(
                "announcer: %s in %s: the queue of %d is full, %d addresses are not announced",
                device, namespace, self._limit, len(left_out),
            )  # fmt: skip

    def cancel(
        self, namespace: str, device: str | None = None, addresses: Iterable[IpAddress] = ()
    ) -> None:
        """Remove *addresses* of a device from the queue; all of the device or namespace if none."""
        with self._changed:
            queues = (self._first, self._repeats, self._sending)
            if device is not None and (named := [_Key(namespace, device, a) for a in addresses]):
                keys = named
            else:
                keys = [
                    key
                    for key in chain(*queues)
                    if key.namespace == namespace and device in (None, key.device)
                ]
            for queue in queues:
                for key in keys:
                    queue.pop(key, None)

    def close(self) -> None:
        """Stop the thread; queued announcements are dropped.  Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, entry: _Entry) -> bool:
        """Queue *entry*, if there is room or a repetition to replace; return whether there was."""
        for queue in (self._repeats, self._sending):
            queue.pop(entry.key, None)
        if entry.key not in self._first and len(self._first) + len(self._repeats) >= self._limit:
            if not self._repeats:
                return False
            del self._repeats[next(iter(self._repeats))]
        self._first[entry.key] = entry
        return True

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            for group in _groups(batch):
                _send(group)
            with self._changed:
                due = time.monotonic() + self._interval
                for key, entry in self._sending.items():
                    if entry.rounds > 1 and len(self._first) + len(self._repeats) < self._limit:
                        self._repeats[key] = evolve(entry, rounds=entry.rounds - 1, due=due)
                self._sending = {}

    def _next_batch(self) -> tuple[_Entry, ...] | None:
        """Wait for announcements that are due and return them; None once closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                batch = tuple(islice(chain(self._first.values(), self._due(now)), _BATCH))
                if batch:
                    self._sending = {entry.key: entry for entry in batch}
                    for key in self._sending:
                        self._first.pop(key, None)
                        self._repeats.pop(key, None)
                    return batch
                following = next(iter(self._repeats.values()), None)
                self._changed.wait(None if following is None else following.due - now)
        return None

    def _due(self, now: float) -> Iterator[_Entry]:
        return takewhile(lambda entry: entry.due <= now, self._repeats.values())


def _groups(batch: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    """Yield the entries that one socket can send."""
    groups: dict[tuple[object, ...], list[_Entry]] = {}
    for entry in batch:
        where = (entry.key.namespace, entry.key.device, entry.router, entry.arp_destination)
        groups.setdefault(where, []).append(entry)
    yield from groups.values()


def _send(group: list[_Entry]) -> None:
    first = group[0]
    try:
        announce_addresses(
            first.key.device,
            [entry.key.address for entry in group],
            first.key.namespace,
            router=first.router,
            arp_destination=first.arp_destination,
        )
    except NetfwError as error:
        LOG.info("announcer: %s in %s: %s", first.key.device, first.key.namespace, error)
