"""Changes of the devices that networks are served from, by somebody else than the driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from uuid import UUID

from netfw.drivers.events import Event, FeedLost, KeysChanged
from netfw.drivers.keys import NetworkKey
from netfw.errors import NetfwError, NotFound
from netfw.linux.service_netns import DriftMonitor, ServiceNetns, ServiceNetnsExecutor
from netfw.model.device_names import DHCP_NAMESPACE, dhcp_namespace
from netfw.model.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.runtime.state_cache import id_of

LOG = logging.getLogger(__name__)


class DeviceMonitor:
    """Asks for networks to be put again whose devices changed; hears the interface driver, and
    passes on that it may have missed something.  What the kernel says is heard of networks that
    are kept.

    A network at which the driver is at work is asked for when that is done, and not at all when it
    failed: what was changed was taken back then, and it is tried again when it is time.

    :param served_from: the network that is served from a port.
    :param tell: is told, from any thread.
    """

    def __init__(
        self,
        stations: ServiceNetnsExecutor,
        served_from: Callable[[PortId], NetworkId | None],
        tell: Callable[[Event], None],
    ) -> None:
        self._served_from, self._tell = served_from, tell
        self._guard = DriftMonitor(stations, self._spoilt)
        self._lock = threading.Lock()
        self._busy: set[NetworkId] = set()
        self._changed: set[NetworkId] = set()

    def hear(self, event: Event) -> None:
        if isinstance(event, FeedLost):
            self._tell(event)
        if not isinstance(event, KeysChanged):
            return
        ports = (PortId(key) for key in event.keys if isinstance(key, UUID))
        networks = {id for port in ports if (id := self._served_from(port)) is not None}
        with self._lock:
            self._changed |= networks & self._busy
            networks -= self._busy
        self._ask(networks)

    def keep(self, network: NetworkId, station: ServiceNetns) -> None:
        """*network* is served as it should be, until the driver is at work at it again."""
        try:
            self._guard.watch(station)
        except NotFound:
            self._ask({network})
        except NetfwError as error:
            LOG.warning("what is done to %s is noticed by audits alone: %s", station.netns, error)

    def close(self) -> None:
        """Keep nothing any more."""
        self._guard.close()

    @contextmanager
    def at_work(self, networks: Set[NetworkId]) -> Iterator[set[NetworkId]]:
        """While the driver is at work at *networks*; gives a set for those that are done."""
        done: set[NetworkId] = set()
        for network in networks:
            self._guard.unwatch(dhcp_namespace(network))
        with self._lock:
            self._busy |= networks
        try:
            yield done
        finally:
            with self._lock:
                changed = self._changed & networks
                self._changed -= networks
                self._busy -= networks
            self._ask(changed & done)

    def _spoilt(self, namespace: str) -> None:
        id = id_of(namespace.removeprefix(DHCP_NAMESPACE))
        self._ask({NetworkId(id)} if id is not None else set())

    def _ask(self, networks: Set[NetworkId]) -> None:
        if networks:
            keys = map(NetworkKey, networks)
            self._tell(KeysChanged("the devices that they are served from changed", keys))


def is_device_of(name: str | None, pid: int | None) -> bool:
    """Whether the network namespace of a process has the device; costs next to nothing."""
    try:
        with open(f"/proc/{pid}/net/dev", encoding="ascii", errors="replace") as file:
            found = {line.partition(":")[0].strip() for line in file}
    except OSError:
        return True  # it ended, which is found out otherwise
    return name is None or name.strip() in found
