"""Of two that contradict each other, who comes first; the same in every run."""

from netfw.drivers.values.keys import NetworkKey
from netfw.ovs.ovsdb.operations import AddBridge
from netfw.plan import Update
from netfw_drivers.ovs.common.local_vlans import no_record, record_of
from netfw_drivers.ovs.switch.plan.outline import outline
from netfw_drivers.ovs.switch.plan.state import SwitchState
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    Database,
    network,
    network_key,
    port_key,
    wiring,
)


def vlan_network(number: int):
    return network(number, "vlan", physical_network="physnet1", segmentation_id=number)


def with_a_record_of(number: int) -> Database:
    database = Database()
    (value,) = vlan_network(number).values()
    records = dict([record_of(7, value.segments[0])])
    database.add_bridge(AddBridge(name="br-int", external_ids=records))
    database.plug(number, 1, other_config={**no_record(), "net_uuid": "anything"})
    return database


def test_what_has_a_record_comes_before_what_is_new():
    put = {**vlan_network(1), **vlan_network(2), **wiring(1, 1), **wiring(2, 2)}
    observed = with_a_record_of(2).observed()
    found = outline(Update(put=put, complete=True), observed, SETTINGS)
    assert list(found.put) == [network_key(2), port_key(2), network_key(1), port_key(1)]


def test_applied_keys_come_before_new_ones():
    state = SwitchState({**vlan_network(2), **wiring(2, 2)})
    put = {**wiring(1, 2), **wiring(2, 2)}
    found = outline(Update(put=put), Database().observed(state), SETTINGS)
    assert list(found.put) == [port_key(2), port_key(1)]


def test_the_flows_of_networks_are_in_the_order_of_the_update():
    numbers = range(2, 30)
    put = {key: value for number in numbers for key, value in vlan_network(number).items()}
    found = outline(Update(put=put, complete=True), Database().observed(), SETTINGS)
    owners = [owner[1] for owner in found.groups.put["br-ex"]]
    assert [key for key in owners if isinstance(key, NetworkKey)] == list(put)
