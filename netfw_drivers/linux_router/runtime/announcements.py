"""Announcements: new addresses of routers, and all addresses of interfaces from time to time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import frozen

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.linux.sockets.announcer import Announcer
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import FloatingIpId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.names import INTERFACE
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex


class AnnouncedAddress(NamedTuple):
    """An address of a device; the same one with another MAC address is new to the neighbours."""

    device: str
    mac: Mac
    address: IpAddress


@frozen(eq=False)
class AnnouncedFloatingIps:
    """The floating IPs on the device of a gateway."""

    device: str
    mac: Mac
    index: TranslationIndex
    prepared: frozenset[FloatingIpId] = frozenset()
    """Those that are not announced: another host has them."""

    def beyond(self, other: AnnouncedFloatingIps | None) -> Iterator[AnnouncedAddress]:
        """Yield the addresses whose rules *other* does not have, or that it does not announce."""
        if other is None or (other.device, other.mac) != (self.device, self.mac):
            other = AnnouncedFloatingIps(self.device, self.mac, TranslationIndex())
        for id, each in self.index.beyond(other.index):
            if id not in self.prepared:
                yield AnnouncedAddress(self.device, self.mac, each.floating)
        for id in other.prepared - self.prepared:
            if id in self.index.translations:
                activated = self.index.translations[id].floating
                yield AnnouncedAddress(self.device, self.mac, activated)


@frozen(eq=False)
class KnownAddresses:
    """The addresses of a namespace that were announced."""

    own: frozenset[AnnouncedAddress] = frozenset()
    floating: AnnouncedFloatingIps | None = None

    def beyond(self, other: KnownAddresses) -> set[AnnouncedAddress]:
        """Return addresses that *other* does not have, or has from another rule."""
        new = set(self.own - other.own)
        return new if self.floating is None else new.union(self.floating.beyond(other.floating))


class Announcements:
    """Announces each address of a namespace once, and the interfaces again at an interval.

    What was announced is known for the life of the driver only: a crash between an address and its
    announcement is made up for when the driver starts again.  Thread-safe.
    """

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._announcer: Announcer | None = None
        self._known: dict[tuple[str, str], KnownAddresses] = {}
        """By namespace and owner."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def update(
        self,
        netns: str,
        addresses: Iterable[AnnouncedAddress],
        floating: AnnouncedFloatingIps | None = None,
        *,
        owner: str = "",
    ) -> None:
        """Announce those of *addresses* and *floating* that are new, cancel those that are gone.

        :param owner: tells those apart that announce in one namespace.
        :raises BackendUnavailable: the machine has no thread left; the next call announces them.
        """
        now = KnownAddresses(frozenset(addresses), floating)
        with self._lock:
            before = self._known.get((netns, owner), KnownAddresses())
            new, gone = now.beyond(before), before.beyond(now)
            if not new and not gone:
                return
            announcer = self._start()
            self._known[netns, owner] = now
        for device, several in _by_device(gone - new - now.own):
            announcer.cancel(netns, device, several)
        self._announce(netns, new - gone - before.own)

    def forget(self, netns: str) -> None:
        """Cancel all announcements of a namespace that is removed."""
        with self._lock:
            known = [self._known.pop(key) for key in [*self._known] if key[0] == netns]
            announcer = self._announcer
        if known and announcer is not None:
            announcer.cancel(netns)

    def withdraw(self, netns: str, owner: str) -> None:
        """Cancel the announcements of one owner in a namespace."""
        with self._lock:
            known = self._known.pop((netns, owner), KnownAddresses())
            announcer = self._announcer
        if announcer is not None:
            for device, several in _by_device(known.beyond(KnownAddresses())):
                announcer.cancel(netns, device, several)

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
        """Start the threads that do not run yet.  Called with the lock.

        :raises BackendUnavailable: the machine has no thread left.
        """
        if self._announcer is None:
            self._announcer = Announcer(rounds=self._settings.announce_count)
        if self._thread is None and self._settings.announce_interval:
            self._thread = start_daemon_thread(
                "netfw-router-announcements",
                "addresses cannot be announced again",
                self._repeat,
                self._closed,
            )
        return self._announcer

    def _repeat(self, closed: threading.Event) -> None:
        while not closed.wait(self._settings.announce_interval):
            with self._lock:
                known = dict(self._known)
            for (netns, _), addresses in known.items():
                inside = (each for each in addresses.own if each.device.startswith(INTERFACE))
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
