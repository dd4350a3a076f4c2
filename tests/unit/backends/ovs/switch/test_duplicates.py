"""Several devices that claim to be one port: which of them is taken for it."""

from itertools import permutations

from attrs import evolve

from netfw.ovs.ovsdb.values import DatabaseChanged
from netfw_drivers.ovs.common.local_vlans import NET_UUID
from netfw_drivers.ovs.switch.port_tracker import PortTracker
from tests.unit.backends.ovs.switch.samples import SETTINGS, Database, port_key


def test_the_device_of_a_port_is_the_one_that_is_wired_in_whatever_order_they_come():
    database = Database()
    database.plug(1, ofport=1, other_config={NET_UUID: "a network"})
    wired = database.ports["tap1"]
    plain = evolve(wired, name="aaa", other_config={})
    plain = evolve(plain, interfaces=(evolve(wired.interface, name="aaa", ofport=9),))
    unnumbered = evolve(plain, name="aab", other_config=wired.other_config)
    unnumbered = evolve(unnumbered, interfaces=(evolve(wired.interface, ofport=None),))
    for order in permutations([wired, plain, unnumbered]):
        plugged = PortTracker(SETTINGS, lambda event: None)
        for port in order:
            plugged(DatabaseChanged(ports={port.name: port}))
        assert plugged.devices[port_key(1).port].name == "tap1"
        plugged(DatabaseChanged(ports_gone=frozenset({"tap1"})))
        assert plugged.devices[port_key(1).port].name == "aaa"
