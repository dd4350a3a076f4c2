"""Guard: finds out which stations somebody else has changed, as soon as that happens."""

from __future__ import annotations

import threading
from collections.abc import Callable

from netfw.errors import BackendUnavailable, NetfwError
from netfw.linux.ip.multi_netns_monitor import MultiNetnsMonitor
from netfw.linux.service_netns.executor import ServiceNetnsExecutor
from netfw.linux.service_netns.plan import plan_service_netns
from netfw.linux.service_netns.values import ServiceNetns


class DriftMonitor:
    """Looks at a station in whose namespace something stirs, and tells when it is not as it was.

    It is told once: whoever is told makes the station as it should be, and then calls `keep` again.
    What the kernel does not announce (parameters, rules of its packet filter) is not noticed.

    :param tell: is told the namespace, from a thread of the guard's; called for none that is not
        kept any more.
    """

    def __init__(self, stations: ServiceNetnsExecutor, tell: Callable[[str], None]) -> None:
        self._stations, self._tell = stations, tell
        self._lock = threading.Lock()
        self._stirring: MultiNetnsMonitor | None = None
        self._kept: dict[str, ServiceNetns] = {}

    def watch(self, station: ServiceNetns) -> None:
        """*station* is as it should be: tell when it is not so any more.

        :raises NotFound: it is gone.
        :raises BackendError: nobody can listen there.
        """
        with self._lock:
            if self._stirring is None:
                self._stirring = MultiNetnsMonitor(self._look)
            stirring = self._stirring
            self._kept[station.netns] = station
        stirring.watch(station.netns)

    def unwatch(self, netns: str) -> None:
        """A station is being changed, or is not wanted any more."""
        with self._lock:
            self._kept.pop(netns, None)
            stirring = self._stirring
        if stirring is not None:
            stirring.unwatch(netns)

    def close(self) -> None:
        """Tell nothing more.  What is kept after that begins anew."""
        with self._lock:
            stirring, self._stirring = self._stirring, None
            self._kept.clear()
        if stirring is not None:
            stirring.close()

    def _look(self, stirred: frozenset[str]) -> None:
        for netns in sorted(stirred):
            station = self._kept.get(netns)
            if station is not None and not self._is_so(station):
                self._alarm(station)

    def _is_so(self, station: ServiceNetns) -> bool:
        try:
            return not plan_service_netns(
                station.netns, station, self._stations.observe(station.netns)
            )
        except BackendUnavailable:
            return True  # who takes the machine's state for lost is told otherwise
        except NetfwError:
            return False

    def _alarm(self, station: ServiceNetns) -> None:
        with self._lock:
            if self._kept.get(station.netns) is not station:
                return  # it is being put right, or was meanwhile
            del self._kept[station.netns]
        self._tell(station.netns)
