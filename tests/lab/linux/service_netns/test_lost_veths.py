"""Pairs of which somebody takes the port from the switch: they look as before."""

from __future__ import annotations

import time

import pytest

from netfw.drivers.values.events import KeysChanged
from netfw.linux.service_netns import ServiceNetnsExecutor
from netfw.model.values.device_names import device_name
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.lab.linux.service_netns.samples import converge, plan, remove, station


@pytest.mark.spec("DHCP-23")
def test_a_pair_whose_port_was_removed_is_made_anew(ovs, ovsdb):
    ovs.add_bridge("br-int")
    interface = OvsInterfaceDriver(ovsdb, use_veth=True)
    stations, wanted = ServiceNetnsExecutor(interface), station(interface)
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    events: list[object] = []
    interface.watch(events.append)
    events.clear()
    ovs.vsctl("del-port", device_name("tap", wanted.port))
    deadline = time.monotonic() + 60
    while not any(isinstance(each, KeysChanged) and wanted.port in each.keys for each in events):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    converge(stations, wanted)
    assert interface.present() == {wanted.port}
    assert plan(stations, wanted) == ()
    remove(stations, wanted)
    assert interface.present() == frozenset()
