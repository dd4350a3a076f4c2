"""Monitor of devices that networks are served from, for changes by other programs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from uuid import UUID

from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import NetfwError, NotFound
from netfw.linux.service_netns import DriftMonitor, ServiceNetns, ServiceNetnsExecutor
from netfw.model.values.device_names import DHCP_NAMESPACE, dhcp_namespace
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.runtime.state_cache import parse_id

LOG = logging.getLogger(__name__)

ADOPTED_PAUSE = 3.0
"""Seconds before adopted namespaces are compared: until then, the agent has others to adopt."""
ADOPTED_INTERVAL = 0.05
"""Seconds between two of them, so that their comparison delays no change of the source."""


class DeviceMonitor:
    """Requests another converge of networks whose devices changed.

    Handles events of the interface driver, `FeedLost` included, and of the kernel for watched
    networks.  For a network that the driver converges, the request is sent when that is done; none
    is sent if it failed: its changes were undone, and it is retried anyway.

    :param served_from: returns the network that is served from a port.
    :param notify: called with events, from any thread.
    """

    def __init__(
        self,
        executor: ServiceNetnsExecutor,
        served_from: Callable[[PortId], NetworkId | None],
        notify: Callable[[Event], None],
    ) -> None:
        self._served_from, self._notify = served_from, notify
        self._drift_monitor = DriftMonitor(executor, self._handle_drift)
        self._lock = threading.Lock()
        self._in_progress: set[NetworkId] = set()
        self._changed: set[NetworkId] = set()
        self._compared_until = 0.0
        """When the last of the adopted namespaces is compared."""

    def handle_event(self, event: Event) -> None:
        if isinstance(event, FeedLost):
            self._notify(event)
        if not isinstance(event, KeysChanged):
            return
        ports = (PortId(key) for key in event.keys if isinstance(key, UUID))
        networks = {id for port in ports if (id := self._served_from(port)) is not None}
        with self._lock:
            self._changed |= networks & self._in_progress
            networks -= self._in_progress
        self._requeue(networks)

    def watch(self, network: NetworkId, service_netns: ServiceNetns, *, adopted: bool) -> None:
        """Watch the devices of *network*, which is in progress, until it is converged again.

        What changed since its observation is compared.

        :param adopted: its namespace was observed without kernel parameters and rules: all of it
            is compared later, one namespace after the other.
        """
        try:
            self._drift_monitor.watch(service_netns)
            if adopted:
                self._drift_monitor.recheck(service_netns.netns, self._next_delay())
        except NotFound:
            self._requeue({network})
        except NetfwError as error:
            LOG.warning("%s: changes are found by audits only: %s", service_netns.netns, error)

    def close(self) -> None:
        """Stop watching."""
        self._drift_monitor.close()

    @contextmanager
    def in_progress(self, networks: Set[NetworkId], *, watch: bool) -> Iterator[set[NetworkId]]:
        """Hold requests back while *networks* are converged; yield a set for those done.

        :param watch: whether those done are going to be watched.
        """
        done: set[NetworkId] = set()
        with self._lock:
            self._in_progress |= networks
        try:
            with self._drift_monitor.held(map(dhcp_namespace, networks), watch=watch):
                yield done
        finally:
            with self._lock:
                changed = self._changed & networks
                self._changed -= networks
                self._in_progress -= networks
            self._requeue(changed & done)

    def _next_delay(self) -> float:
        """Return the seconds until the next adopted namespace is compared."""
        now = time.monotonic()
        with self._lock:
            self._compared_until = max(self._compared_until, now + ADOPTED_PAUSE) + ADOPTED_INTERVAL
            return self._compared_until - now

    def _handle_drift(self, namespace: str) -> None:
        id = parse_id(namespace.removeprefix(DHCP_NAMESPACE))
        self._requeue({NetworkId(id)} if id is not None else set())

    def _requeue(self, networks: Set[NetworkId]) -> None:
        if networks:
            keys = map(NetworkKey, networks)
            self._notify(KeysChanged("the devices that they are served from changed", keys))


def is_device_of(name: str | None, pid: int | None) -> bool:
    """Return whether the network namespace of a process has the device; cheap."""
    try:
        with open(f"/proc/{pid}/net/dev", encoding="ascii", errors="replace") as file:
            found = {line.partition(":")[0].strip() for line in file}
    except OSError:
        return True  # the process ended, which is noticed elsewhere
    return name is None or name.strip() in found
