"""Index of floating IPs: at which router each of them is, as last read or written."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from netfw.model.values.ids import FloatingIpId
from netfw_drivers.linux_router.plan.names import PartId
from netfw_drivers.linux_router.plan.observed import FoundRouter
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex


class ReadFloatingIps(Protocol):
    """Reads the floating IPs of all routers."""

    def __call__(self) -> Mapping[PartId, FoundRouter]: ...


class FloatingIpIndex:
    """Where each floating IP is.  It is read once, and then known from observations.  Thread-safe.

    :param read: reads the floating IPs of all routers.
    """

    def __init__(self, read: ReadFloatingIps) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._routers: dict[FloatingIpId, PartId] | None = None
        self._indexes: dict[PartId, TranslationIndex] = {}
        """The floating IPs of each router as last read or written."""
        self._ended: dict[PartId, frozenset[FloatingIpId]] = {}
        """Those whose connections are still to be removed."""

    def ids(self) -> frozenset[FloatingIpId]:
        """Return all floating IPs."""
        with self._lock:
            return frozenset(self._located())

    def routers_of(self, ids: Collection[FloatingIpId]) -> set[PartId]:
        """Return the routers that have these floating IPs."""
        if not ids:
            return set()
        with self._lock:
            routers = self._located()
            return {routers[id] for id in ids if id in routers}

    def known(self, ids: Iterable[FloatingIpId]) -> Iterator[FloatingIpId]:
        """Yield those of *ids* that are at a router as far as is known, without reading."""
        with self._lock:
            routers = self._routers or {}
            yield from [id for id in ids if id in routers]

    def index(self, router: PartId) -> TranslationIndex:
        """Return the floating IPs of a router as last read or written."""
        with self._lock:
            return self._indexes.get(router) or TranslationIndex()

    def record(self, router: PartId, found: FoundRouter) -> None:
        """Record where the floating IPs of a router are, as far as that changed."""
        index, ended = found.index, found.ended
        with self._lock:
            former = self._indexes.get(router) or TranslationIndex()
            gone = {id for id, _ in former.beyond(index)} | self._ended.pop(router, frozenset())
            self._drop(router, (id for id in gone - ended if id not in index.translations))
            if self._routers is not None:
                new = {id for id, _ in index.beyond(former)} | ended
                self._routers |= dict.fromkeys(new, router)
            self._indexes[router], self._ended[router] = index, ended

    def forget(self, router: PartId) -> None:
        """Forget where the floating IPs of a router are."""
        with self._lock:
            former = self._indexes.pop(router, TranslationIndex())
            ended = self._ended.pop(router, frozenset())
            self._drop(router, {*former.translations, *ended})

    def reset(self) -> None:
        """Forget everything: another driver may have changed routers meanwhile."""
        with self._lock:
            self._routers = None
            self._indexes.clear()
            self._ended.clear()

    def _drop(self, router: PartId, ids: Iterable[FloatingIpId]) -> None:
        """Drop *ids* that are at a router as far as is known.  Called with the lock."""
        routers = self._routers or {}
        for id in ids:
            if routers.get(id) == router:
                del routers[id]

    def _located(self) -> dict[FloatingIpId, PartId]:
        """Return where each floating IP is, which is read if not known.  Called with the lock."""
        if self._routers is None:
            all_found = self._read()
            self._routers = {}
            for router, found in all_found.items():
                self._indexes[router], self._ended[router] = found.index, found.ended
                self._routers |= dict.fromkeys(found.floating_ips, router)
        return self._routers
