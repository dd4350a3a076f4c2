"""Index of floating IPs: at which router each of them is, as last read or written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Protocol

from netfw.errors import BackendBroken, NotFound
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.ids import FloatingIpId
from netfw_drivers.linux_router.plan.names import PartId, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRouter
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex

LOG = logging.getLogger(__name__)


Readings = tuple[Mapping[PartId, FoundRouter], Mapping[PartId, BackendBroken]]
"""Routers with their floating IPs, and those that an operator must repair first."""


class ReadFloatingIps(Protocol):
    """Reads the floating IPs of routers."""

    def __call__(self, routers: Iterable[PartId], /) -> Readings: ...


class FloatingIpIndex:
    """Where each floating IP is.  It is read once, and then known from observations.  Thread-safe.

    A router that an operator must repair first is no obstacle to the floating IPs of the others: it
    is left out, and read again at each use until it can be.

    :param present: returns the routers.
    :param read: reads the floating IPs of some of them.
    """

    def __init__(self, present: Callable[[], Collection[PartId]], read: ReadFloatingIps) -> None:
        self._present, self._read = present, read
        self._lock = threading.Lock()
        self._routers: dict[FloatingIpId, PartId] | None = None
        self._unread: frozenset[PartId] = frozenset()
        """The routers that are left out."""
        self._indexes: dict[PartId, TranslationIndex] = {}
        """The floating IPs of each router as last read or written."""
        self._ended: dict[PartId, frozenset[FloatingIpId]] = {}
        """Those whose connections are still to be removed."""

    def ids(self) -> frozenset[FloatingIpId]:
        """Return all floating IPs."""
        with self._lock:
            return frozenset(self._located())

    def routers_of(
        self, ids: Collection[FloatingIpId], dropped: Set[FloatingIpId] = frozenset()
    ) -> set[PartId]:
        """Return the routers that have these floating IPs.

        One of them that is to be *dropped* and is nowhere may be at a router that is left out:
        then these are returned, too.
        """
        if not ids:
            return set()
        with self._lock:
            routers = self._located()
            found = {routers[id] for id in ids if id in routers}
            return found if dropped <= routers.keys() else found | self._unread

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
            self._unread -= {router}

    def forget(self, router: PartId) -> None:
        """Forget where the floating IPs of a router are."""
        with self._lock:
            former = self._indexes.pop(router, TranslationIndex())
            ended = self._ended.pop(router, frozenset())
            self._drop(router, {*former.translations, *ended})

    def reset(self) -> None:
        """Forget everything: another driver may have changed routers meanwhile."""
        with self._lock:
            self._routers, self._unread = None, frozenset()
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
        unread = self._present() if self._routers is None else self._unread
        read, broken = self._read(unread) if unread else ({}, {})
        for router in broken.keys() - self._unread:
            LOG.warning("router %s: floating IPs cannot be read: %s", router, broken[router])
        self._routers, self._unread = self._routers or {}, frozenset(broken)
        for router, found in read.items():
            self._indexes[router], self._ended[router] = found.index, found.ended
            self._routers |= dict.fromkeys(found.floating_ips, router)
        return self._routers


def read_floating_ips(executor: RouterNetnsExecutor, routers: Iterable[PartId]) -> Readings:
    """Read the floating IPs of *routers*."""
    found, broken = dict[PartId, FoundRouter](), dict[PartId, BackendBroken]()
    for router in routers:
        namespace = router_namespace(router)
        try:
            rules = executor.read_filters(namespace)
        except NotFound:
            rules = None
        except BackendBroken as error:
            broken[router] = error
            continue
        found[router] = FoundRouter(netns=ObservedNetns(netns=namespace, rules=rules))
    return found, broken
