"""Changes of the switch by others, as the firewall keys that they concern."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from netfw.drivers.values.events import Event, KeysChanged
from netfw.drivers.values.keys import PortKey
from netfw.ovs.ovsdb.values import DatabaseChanged, SwitchEvent
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.common.outage import DatabaseOutage
from netfw_drivers.ovs.firewall.plan.changes import FlowOwner

Publish = Callable[[Event], None]


class OfportTracker:
    """The switch's numbers of devices; publishes changes of those that a key depends on.

    Called by the database's thread.
    """

    def __init__(self, bridge: str, publish: Publish) -> None:
        self._bridge, self._publish = bridge, publish
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._users: dict[str, set[PortKey]] = {}
        self._device: dict[PortKey, str] = {}
        self._outage = DatabaseOutage(publish)

    def expect(self, key: PortKey, device: str) -> None:
        """Make *key* depend on *device*."""
        with self._lock:
            self._forget(key)
            self._device[key] = device
            self._users.setdefault(device, set()).add(key)

    def forget(self, key: PortKey) -> None:
        """Remove *key*."""
        with self._lock:
            self._forget(key)

    def __call__(self, event: SwitchEvent) -> None:
        if not isinstance(event, DatabaseChanged):
            self._outage.handle(event)
        elif keys := self._changed(event):
            self._publish(KeysChanged("the switch numbered their devices", keys))

    def _changed(self, event: DatabaseChanged) -> frozenset[PortKey]:
        now: dict[str, int | None] = dict.fromkeys(event.ports_gone)
        now |= {
            name: ofport_of(port) if port.bridge == self._bridge else None
            for name, port in event.ports.items()
        }
        with self._lock:
            found = [key for name, number in now.items() for key in self._note(name, number)]
        return frozenset(found)

    def _note(self, name: str, number: int | None) -> Iterable[PortKey]:
        before = self._numbers.pop(name, None)
        if number is not None:
            self._numbers[name] = number
        return self._users.get(name, ()) if before != number else ()

    def _forget(self, key: PortKey) -> None:
        device = self._device.pop(key, None)
        if device is not None:
            self._users[device].discard(key)
            if not self._users[device]:
                del self._users[device]


class DriftedOwners:
    """Owners of flows that another process changed, until they are repaired."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: set[FlowOwner] = set()

    def add(self, parts: Iterable[FlowOwner]) -> None:
        with self._lock:
            self._parts.update(parts)

    def settle(self, parts: Iterable[FlowOwner]) -> None:
        with self._lock:
            self._parts.difference_update(parts)

    def now(self) -> frozenset[FlowOwner]:
        with self._lock:
            return frozenset(self._parts)
