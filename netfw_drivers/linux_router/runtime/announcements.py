"""Announcements: new addresses of routers, and all addresses of interfaces from time to time."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from netfw.errors import BackendUnavailable
from netfw.linux.sockets.announcer import Announcer
from netfw.model.address import IpAddress, Mac
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.names import INTERFACE


class AnnouncedAddress(NamedTuple):
    """An address of a device; the same one with another MAC address is new to the neighbours."""

    device: str
    mac: Mac
    address: IpAddress


class Announcements:
    """Announces each address of a namespace once, and the interfaces again at an interval.

    What was announced is known for the life of the driver only: a crash between an address and its
    announcement is made up for when the driver starts again.  Thread-safe.
    """

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._announcer: Announcer | None = None
        self._known: dict[str, frozenset[AnnouncedAddress]] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def update(self, netns: str, addresses: Iterable[AnnouncedAddress]) -> None:
        """Announce those of *addresses* that are new, and cancel those that are gone.

        :raises BackendUnavailable: the machine has no thread left; the next call announces them.
        """
        now = frozenset(addresses)
        with self._lock:
            if now == self._known.get(netns, frozenset()):
                return
            announcer = self._start()
            before, self._known[netns] = self._known.get(netns, frozenset()), now
        for device, several in _by_device(before - now):
            announcer.cancel(netns, device, several)
        self._announce(netns, now - before)

    def forget(self, netns: str) -> None:
        """Cancel all announcements of a namespace that is removed."""
        with self._lock:
            known = self._known.pop(netns, None)
            announcer = self._announcer
        if known and announcer is not None:
            announcer.cancel(netns)

    def close(self) -> None:
        """Stop announcing, and forget what was announced.  Idempotent."""
        with self._lock:
            announcer, self._announcer = self._announcer, None
            thread, self._thread = self._thread, None
            self._known.clear()
            self._closed.set()
            self._closed = threading.Event()
        if thread is not None:
            thread.join()
        if announcer is not None:
            announcer.close()

    def _start(self) -> Announcer:
        """Start the threads that do not run yet.  Called with the lock."""
        try:
            if self._announcer is None:
                self._announcer = Announcer(rounds=self._settings.announce_count)
            if self._thread is None and self._settings.announce_interval:
                thread = threading.Thread(
                    target=self._repeat,
                    args=(self._closed,),
                    name="netfw-router-announcements",
                    daemon=True,
                )
                thread.start()
                self._thread = thread
        except RuntimeError as error:
            raise BackendUnavailable(f"addresses cannot be announced: {error}") from error
        return self._announcer

    def _repeat(self, closed: threading.Event) -> None:
        while not closed.wait(self._settings.announce_interval):
            with self._lock:
                known = dict(self._known)
            for netns, addresses in known.items():
                inside = (each for each in addresses if each.device.startswith(INTERFACE))
                self._announce(netns, inside)

    def _announce(self, netns: str, addresses: Iterable[AnnouncedAddress]) -> None:
        with self._lock:
            announcer = self._announcer
        if announcer is None:
            return
        for device, several in _by_device(addresses):
            announcer.announce(
                netns,
                device,
                several,
                router=True,
                arp_destination=self._settings.announce_mac,
            )


def _by_device(addresses: Iterable[AnnouncedAddress]) -> Iterable[tuple[str, list[IpAddress]]]:
    found: dict[str, list[IpAddress]] = {}
    for each in addresses:
        found.setdefault(each.device, []).append(each.address)
    return found.items()
