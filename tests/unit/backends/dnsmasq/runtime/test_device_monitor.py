"""Whose device was changed is asked for, but for what the driver did itself to no avail."""

from __future__ import annotations

from uuid import uuid4

from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.drivers.values.keys import NetworkKey
from netfw.linux.service_netns import ServiceNetnsExecutor
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.runtime.device_monitor import DeviceMonitor
from netfw_drivers.null.interface import NullInterfaceDriver

ONE, TWO = (NetworkId(uuid4()) for _ in range(2))
FIRST, SECOND, STRANGE = (PortId(uuid4()) for _ in range(3))


def test_networks_are_asked_for_unless_the_driver_failed_at_them() -> None:
    events: list[Event] = []
    stations = ServiceNetnsExecutor(NullInterfaceDriver())
    devices = DeviceMonitor(stations, {FIRST: ONE, SECOND: TWO}.get, events.append)

    def asked() -> set[object]:
        keys = {key for event in events if isinstance(event, KeysChanged) for key in event.keys}
        events.clear()
        return keys

    devices.handle_event(KeysChanged("", [FIRST, STRANGE, "no port"]))
    assert asked() == {NetworkKey(ONE)}
    devices.handle_event(KeysChanged("", [STRANGE]))
    assert not events
    devices.handle_event(FeedLost("the switch is away"))
    assert events.pop() == FeedLost("the switch is away")
    with devices.in_progress({ONE}, watch=False) as done:
        devices.handle_event(KeysChanged("", [FIRST, SECOND]))
        assert asked() == {NetworkKey(TWO)}, "the other one is being looked at"
        done.add(ONE)
    assert asked() == {NetworkKey(ONE)}
    with devices.in_progress({ONE}, watch=False):
        devices.handle_event(KeysChanged("", [FIRST]))
    assert not events, "it is tried again when it is time"
    devices.handle_event(KeysChanged("", [FIRST]))
    assert asked() == {NetworkKey(ONE)}
