"""Mirror of the ports plugged into the switch, kept current by the database's events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import SwitchDevice, SwitchKey
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.values import Bridge, DatabaseChanged, OvsdbPort, SwitchEvent
from netfw.plan.versioned_map import VersionedMap
from netfw_drivers.ovs.common.local_vlans import RECORD, no_record
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.common.outage import DatabaseOutage
from netfw_drivers.ovs.switch.plan.bridges import PROTOCOLS, SECURE
from netfw_drivers.ovs.switch.plan.observed import (
    ATTACHED_MAC,
    EXTENSION_MARK,
    by_rank,
    endpoint_of,
    port_id_of,
)
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.sub_ports import sub_port_of_end, subport_of

Fingerprint = tuple[object, ...]
"""The values of a row that matter to this driver."""
_RECORD = tuple(no_record())
_NUMBERING = 5.0
"""Seconds for which a new port may wait for its number without being converged: while the switch
adds many ports, it needs the CPU itself."""


class PortTracker:
    """Devices by the port they are for; publishes what another process changed.

    Called by the database's thread.  The driver announces its own changes with `expect`, so that
    they are not published.
    """

    def __init__(self, settings: Settings, publish: Callable[[Event], None]) -> None:
        self._settings, self._publish = settings, publish
        self._link_ends = {
            end.name: link.veth_mtu for link in settings.bridge_links() for end, _ in link.ends
        }
        self._lock = threading.Lock()
        self._ports: VersionedMap[PortId, tuple[OvsdbPort, ...]] = VersionedMap()
        self._devices: dict[PortId, SwitchDevice] = {}
        self._known: dict[str, tuple[OvsdbPort, Fingerprint]] = {}
        self._names = frozenset(settings.bridges)
        self._physical = frozenset(settings.mappings.values())
        self._bridges: dict[str, Fingerprint] = {}
        self._records: dict[str, str] = {}
        self._recording: dict[str, str | None] = {}
        self._expected: dict[str, Fingerprint | None] = {}
        self._listed = False
        self._outage = DatabaseOutage(publish)

    @property
    def devices(self) -> Mapping[PortId, SwitchDevice]:
        """All devices, as a live view."""
        return MappingProxyType(self._devices)

    def ports(self) -> Mapping[PortId, tuple[OvsdbPort, ...]]:
        """Return the ports of ``br-int``; the cost does not depend on how many there are."""
        with self._lock:
            return self._ports.copy()

    def listed(self) -> None:
        """Publish changes from now on; the caller reads what there is."""
        self._listed = True

    def expect(self, name: str, port: OvsdbPort | None) -> None:
        """Announce that the driver is about to change the port *name* to *port*.

        That the device of a sub-port goes is published in any case: its users watch it.
        """
        with self._lock:
            known = self._known.get(name)
            if port is None and known is not None and subport_of(known[0]) is not None:
                return
            self._expected[name] = None if port is None else self._fingerprint(port)

    def expect_nothing(self) -> None:
        """Forget what was announced: the driver failed, and another process may do the same.

        If the change was made nonetheless, it is published.
        """
        with self._lock:
            self._expected.clear()
            self._recording.clear()

    def expect_records(self, records: Mapping[str, str | None]) -> None:
        """Announce *records* that the driver is about to write into ``br-int``."""
        with self._lock:
            self._recording.update(records)

    def __call__(self, event: SwitchEvent) -> None:
        if isinstance(event, DatabaseChanged):
            self._changed(event)
        else:
            self._outage.handle(event)

    def _changed(self, event: DatabaseChanged) -> None:
        with self._lock:
            first, self._listed = not self._listed, True
            keys: set[SwitchKey | None] = set()
            unnumbered: set[SwitchKey | None] = set()
            for name in event.ports_gone:
                keys.update(self._gone(name))
            for name, port in event.ports.items():
                found = unnumbered if self._is_about_to_be_numbered(name, port) else keys
                found.update(self._came(name, port))
            for name in {*event.bridges, *event.bridges_gone} & self._names:
                keys.update(self._bridge(name, event.bridges.get(name)))
        if first:
            return
        if None in keys or None in unnumbered:
            self._publish(FeedLost("the bridges or the links between them have changed"))
            return
        if keys:
            self._publish(KeysChanged("the switch changed", keys))
        if unnumbered - keys:
            why = "the switch is about to number their devices"
            self._publish(KeysChanged(why, unnumbered - keys, delay=_NUMBERING))

    def _gone(self, name: str) -> Iterator[SwitchKey | None]:
        before = self._known.pop(name, None)
        if before is None:
            return
        self._forget(before[0])
        if self._expected.pop(name, before[1]) is not None:
            yield from self._keys(before[0])

    def _came(self, name: str, port: OvsdbPort) -> Iterator[SwitchKey | None]:
        before = self._known.get(name)
        if before is not None:
            self._forget(before[0])
        now = self._fingerprint(port)
        self._known[name] = port, now
        self._note(port)
        if before is not None and self._is_sound(before[0]) and not self._is_sound(port):
            yield None
        if self._expected.get(name, ()) == now:
            del self._expected[name]
        elif before is not None and before[1] != now and not self._numbered(before[0], now):
            yield from self._keys(before[0])
            yield from self._keys(port)
        elif before is None and not self._is_made(port):
            yield from self._keys(port)

    def _is_about_to_be_numbered(self, name: str, port: OvsdbPort) -> bool:
        """Return whether *port* is new on ``br-int`` and the switch has not handled it yet."""
        new = name not in self._known and port.bridge == self._settings.integration
        return new and port.interface.ofport is None and port.interface.error is None

    def _is_sound(self, port: OvsdbPort) -> bool:
        """Return whether *port* is the end of a veth link that is up and has the right MTU."""
        mtu, found = self._link_ends.get(port.name), port.interface
        return mtu is not None and (found.link_state, found.mtu) == ("up", mtu)

    def _numbered(self, before: OvsdbPort, now: Fingerprint) -> bool:
        """Return whether a link or tunnel only got its number, which the executor checks."""
        if not self._is_made(before) or ofport_of(before) is not None:
            return False
        bridge, kind, _, options = self._fingerprint(before)
        return (bridge, kind, options) == (now[0], now[1], now[-1])

    def _is_made(self, port: OvsdbPort) -> bool:
        return port.name in self._link_ends or endpoint_of(port) is not None

    def _keys(self, port: OvsdbPort) -> Iterator[SwitchKey | None]:
        """Yield the keys that a change of *port* concerns; ``None`` stands for all keys."""
        port_id, endpoint = port_id_of(port) or sub_port_of_end(port), endpoint_of(port)
        if port.name in self._link_ends:
            yield None
        elif port_id is not None:
            yield PortKey(port_id)
        elif endpoint is not None and port.bridge == self._settings.tunnel:
            yield endpoint

    def _note(self, port: OvsdbPort) -> None:
        port_id = port_id_of(port)
        if port_id is None:
            return
        if port.bridge == self._settings.integration:
            self._ports[port_id] = by_rank((*self._ports.get(port_id, ()), port))
            self._devices[port_id] = _device(self._ports[port_id][0], self._settings.integration)
        elif port_id not in self._devices:
            self._devices[port_id] = _device(port, self._settings.integration)

    def _forget(self, port: OvsdbPort) -> None:
        port_id = port_id_of(port)
        if port_id is None:
            return
        left = tuple(p for p in self._ports.get(port_id, ()) if p.name != port.name)
        if left:
            self._ports[port_id] = left
            self._devices[port_id] = _device(left[0], self._settings.integration)
        else:
            self._ports.pop(port_id, None)
            device = self._devices.get(port_id)
            if device is not None and device.name == port.name:
                del self._devices[port_id]

    def _bridge(self, name: str, bridge: Bridge | None) -> Iterator[None]:
        """Yield ``None`` if a bridge was removed, made anew, or lost protocols or records."""
        before = self._bridges.pop(name, None)
        if bridge is not None:
            now = self._bridges[name] = bridge.uuid, bridge.fail_mode, bridge.protocols
            kept = before == now or (before is not None and before[0] == now[0] and _fits(bridge))
        else:
            kept = False
        recorded = name != self._settings.integration or self._recorded(bridge)
        if before is None:
            kept, recorded = name not in self._physical, True
        if not kept or not recorded:
            yield None

    def _recorded(self, bridge: Bridge | None) -> bool:
        """Return whether the records of ``br-int`` changed only as expected."""
        before, now = self._records, {} if bridge is None else _records(bridge)
        self._records = now
        changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
        expected = {k: self._recording.pop(k) for k in changed & self._recording.keys()}
        return expected == {key: now.get(key) for key in changed}

    def _fingerprint(self, port: OvsdbPort) -> Fingerprint:
        interface = port.interface
        if self._is_made(port):
            options = tuple(sorted(interface.options.items()))
            return port.bridge, interface.type, ofport_of(port), options
        record = tuple(port.other_config.get(key) for key in _RECORD)
        number = ofport_of(port)
        wiring = port.tag, port.vlan_mode, port.trunks, record
        return port_id_of(port), port.bridge, number, interface.error, *wiring


def _records(bridge: Bridge) -> dict[str, str]:
    """Return the records of networks and extensions, which a restarted driver reads."""
    return {k: v for k, v in bridge.external_ids.items() if k.startswith((RECORD, EXTENSION_MARK))}


def _fits(bridge: Bridge) -> bool:
    return bridge.fail_mode == SECURE and set(PROTOCOLS) <= set(bridge.protocols)


def _device(port: OvsdbPort, integration: str) -> SwitchDevice:
    return SwitchDevice(
        name=port.name,
        mac=_mac(port),
        ofport=ofport_of(port),
        ancillary=port.bridge != integration,
    )


def _mac(port: OvsdbPort) -> Mac | None:
    """Return the MAC of the instance behind *port*, as its ``external_ids`` have it."""
    interface = port.interface
    text = interface.external_ids.get(ATTACHED_MAC) or interface.mac_in_use or ""
    try:
        return Mac(text)
    except ValueError:
        return None
