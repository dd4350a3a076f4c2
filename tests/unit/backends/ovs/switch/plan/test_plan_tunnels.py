"""Plans of tunnels, flood groups and forwarding entries."""

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.values.switch_values import (
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    SwitchKey,
    SwitchValue,
)
from netfw.errors import Conflict
from netfw.model.values.address import Mac
from netfw.ovs.openflow.encode import Key, State, encode_flows
from netfw.ovs.openflow.flow_inspection import output_ports
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.tunnel_tables import UNICAST
from netfw_drivers.ovs.switch.plan.flow_groups import owner_of
from netfw_drivers.ovs.switch.plan.outline import PlanOutline
from netfw_drivers.ovs.switch.plan.recovery import recover_entries
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment
from tests.unit.backends.ovs.switch.samples import (
    network,
    network_key,
    peer,
    rows,
    tunnel,
)


@pytest.mark.spec("L2-32")
def test_tunnels_are_named_by_type_and_peer_and_request_a_number(populated: PlanEnvironment):
    found = populated.outline(Update(put=tunnel(2, mesh=True)))
    (operation,) = found.draft.prepare
    port: Any = operation.payload
    assert port.name == "vxlan-c0000202"
    assert port.options == {
        "remote_ip": "192.0.2.2",
        "local_ip": "192.0.2.1",
        "in_key": "flow",
        "out_key": "flow",
        "df_default": "true",
    }
    assert found.draft.requested == {"vxlan-c0000202": port.ofport_request}
    assert found.draft.waiting == {}


def test_a_tunnel_with_other_options_is_repaired(populated: PlanEnvironment):
    populated.do(Update(put=tunnel(2)))
    port = populated.database.ports["vxlan-c0000202"]
    options = {**port.interface.options, "remote_ip": "192.0.2.99", "csum": "true"}
    populated.database.ports[port.name] = evolve(
        port, interfaces=(evolve(port.interface, options=options),)
    )
    assert rows(populated.outline(Update(put=tunnel(2)))) == [
        "set Interface vxlan-c0000202 options:remote_ip=192.0.2.2 options:csum=(none)"
    ]


def test_the_name_of_a_stranger_is_a_conflict(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.database.ports["vxlan-c0000202"] = evolve(
        populated.database.ports.pop("tap1"), name="vxlan-c0000202", bridge="br-tun"
    )
    found = populated.outline(Update(put={**tunnel(2), **tunnel(3)}))
    assert isinstance(found.draft.refused[peer(2)], Conflict)
    assert len(rows(found)) == 1


def test_many_tunnels_are_removed_a_few_at_a_time(populated: PlanEnvironment):
    many: dict[SwitchKey, SwitchValue] = {}
    for number in range(2, 27):
        many |= tunnel(number)
    populated.do(Update(put=many))
    found = populated.outline(Update(drop=frozenset(many)))
    assert [len(stage.operations) for stage in found.draft.after()] == [10, 10, 5]
    assert list(found.draft.before()) == []


@pytest.mark.spec("L2-31")
def test_one_more_peer_of_a_network_costs_the_group_of_that_network(populated: PlanEnvironment):
    overlay = network(2, "vxlan", segmentation_id=7)
    other = network(3, "vxlan", segmentation_id=8)
    populated.do(Update(put={**overlay, **other, **tunnel(2), **tunnel(3)}))
    flood = FloodKey(network_key(2).network, peer(2))
    found = populated.outline(Update(put={flood: Flood()}))
    touched = {owner for owner in found.groups.put["br-tun"] if owner[1] != "base"}
    assert touched == {("switch", network_key(2))}


def test_entries_wait_for_network_and_tunnel(populated: PlanEnvironment):
    flood = FloodKey(network_key(2).network, peer(2))
    assert "network" in populated.outline(Update(put={flood: Flood()})).draft.waiting[flood]
    populated.do(Update(put=network(2, "vxlan", segmentation_id=7)))
    assert "tunnel" in populated.outline(Update(put={flood: Flood()})).draft.waiting[flood]
    populated.do(Update(put=tunnel(2)))
    assert populated.outline(Update(put={flood: Flood()})).draft.waiting == {}


ENTRY = ForwardingKey(network_key(2).network, Mac("fa:16:3e:00:00:01"))


def entry(*peers: int) -> dict[SwitchKey, SwitchValue]:
    return {ENTRY: Forwarding(frozenset(map(peer, peers)))}


def flows_of_entry(found: PlanOutline) -> list[tuple[Key, State]]:
    group = found.groups.put["br-tun"][owner_of(ENTRY)]
    return [(key, encoded.state) for key, encoded in encode_flows(group.make()).items()]


def tunnels_of_entry(found: PlanOutline) -> list[frozenset[int]]:
    """Return the tunnels that each flow for the MAC of the entry sends into, the most first."""
    sent = (output_ports(state) for key, state in flows_of_entry(found) if key[0] == UNICAST.number)
    return sorted(sent, key=lambda ports: (-len(ports), sorted(ports)))


def numbers(populated: PlanEnvironment, *peers: int) -> set[int | None]:
    names = (f"vxlan-c00002{each:02x}" for each in peers)
    return {populated.database.ports[name].interface.ofport for name in names}


@pytest.mark.spec("L2-61")
def test_a_shared_mac_is_sent_to_every_endpoint_and_the_set_changes_in_place(
    populated: PlanEnvironment,
):
    populated.wired(net=network(2, "vxlan", segmentation_id=7), two=tunnel(2), three=tunnel(3))
    found = populated.do(Update(put=entry(2, 3)))
    one, other = sorted(map(partial(numbers, populated), (2, 3)), key=sorted)
    assert tunnels_of_entry(found) == [one | other, one, other]
    before = {key for key, state in flows_of_entry(found) if len(output_ports(state)) == 2}
    found = populated.do(Update(put=entry(3)))
    assert tunnels_of_entry(found) == [numbers(populated, 3)]
    assert {key for key, _ in flows_of_entry(found)} == before  # it is changed, not replaced


@pytest.mark.spec("L2-61")
def test_an_entry_with_a_missing_tunnel_uses_the_others_and_waits(populated: PlanEnvironment):
    populated.wired(net=network(2, "vxlan", segmentation_id=7), two=tunnel(2))
    found = populated.do(Update(put=entry(2, 4)))
    assert found.draft.waiting == {ENTRY: "there is no tunnel to vxlan 192.0.2.4 yet"}
    assert tunnels_of_entry(found) == [numbers(populated, 2)]
    found = populated.do(Update(put=tunnel(4)))
    assert tunnels_of_entry(found)[0] == numbers(populated, 2, 4)
    found = populated.do(Update(drop=frozenset({peer(2)})))
    assert tunnels_of_entry(found) == [numbers(populated, 4)]


@pytest.mark.spec("L2-61")
def test_a_later_run_knows_all_endpoints_of_an_entry(populated: PlanEnvironment):
    populated.wired(net=network(2, "vxlan", segmentation_id=7), two=tunnel(2), three=tunnel(3))
    flows = flows_of_entry(populated.do(Update(put=entry(2, 3))))
    assert recover_entries(flows, populated.database.observed()) == entry(2, 3)
