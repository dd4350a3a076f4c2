"""Plans of the switch driver: bridges, VLANs, duplicates, refusals, sweeps."""

from typing import Any

import pytest
from attrs import evolve

from netfw.errors import Conflict, InvalidInput, NotFound, NotSupported
from netfw.ovs.ovsdb.operations import AddPort
from netfw.plan import Update
from netfw_drivers.ovs.common.local_vlans import VlansExhausted
from netfw_drivers.ovs.switch.plan.state import DomainMembers, SwitchState
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment, State
from tests.unit.backends.ovs.switch.samples import (
    network,
    network_key,
    peer,
    port_key,
    rows,
    tunnel,
    wiring,
)

ID = port_key(0xAB).port


@pytest.mark.spec("L2-02", "L2-03", "L2-04")
def test_bridges_and_links_come_first_and_are_joined_last(env: PlanEnvironment):
    found = env.outline(Update(put=network(1)))
    assert [operation.text for operation in found.draft.prepare] == [
        "add bridge br-int",
        "add bridge br-tun",
        "set Bridge br-ex fail_mode=secure protocols=('OpenFlow10', 'OpenFlow11', 'OpenFlow12', "
        "'OpenFlow13', 'OpenFlow14') datapath_type=netdev",
        *(
            operation.text
            for operation in found.draft.prepare
            if operation.text.startswith("add port")
        ),
    ]
    added: list[Any] = [o.payload for o in found.draft.prepare if o.text.startswith("add port")]
    patches = [port for port in added if port.type == "patch"]
    assert {(patch.name, patch.options["peer"]) for patch in patches} == {
        (name, "not-joined-yet") for name in ("patch-tun", "patch-int", "int-br-ex", "phy-br-ex")
    }
    assert [operation.text for operation in found.draft.admit] == [
        "set Interface patch-tun options:peer=patch-int",
        "set Interface patch-int options:peer=patch-tun",
        "set Interface int-br-ex options:peer=phy-br-ex",
        "set Interface phy-br-ex options:peer=int-br-ex",
    ]


def test_where_all_is_as_it_should_be_nothing_is_done(populated: PlanEnvironment):
    assert rows(populated.outline(Update(put=network(1)))) == []


def test_a_bridge_with_another_fail_mode_is_made_secure_again(populated: PlanEnvironment):
    bridge = populated.database.bridges["br-int"]
    populated.database.bridges["br-int"] = evolve(bridge, fail_mode="standalone")
    assert rows(populated.outline(Update(put=network(1)))) == ["set Bridge br-int fail_mode=secure"]


@pytest.mark.spec("L2-13")
def test_a_number_is_recorded_before_anything_uses_it_and_given_back_after(
    populated: PlanEnvironment,
):
    provider = {"physical_network": "physnet1", "segmentation_id": 9}
    found = populated.do(Update(put=network(2, "vlan", **provider)))
    assert rows(found) == [
        "set Bridge br-int external_ids:netfw-vlan-2=00000000-0000-0002-0000-000000000000/"
        "00000000-0000-0002-0000-000000000001/vlan/physnet1/9"
    ]
    assert found.draft.release == []
    gone = populated.outline(Update(drop=frozenset({network_key(2)})))
    assert [operation.text for operation in gone.draft.release] == [
        "set Bridge br-int external_ids:netfw-vlan-2=(none)"
    ]


@pytest.mark.spec("L2-06")
def test_a_restarted_driver_finds_the_numbers_again(populated: PlanEnvironment):
    populated.do(Update(put=network(2)))
    populated.do(Update(drop=frozenset({network_key(1)})))
    populated.state, populated.members = SwitchState(), DomainMembers()
    found = populated.outline(Update(put={**network(3), **network(2)}, complete=True))
    assert found.draft.release == []
    assert len(found.draft.prepare) == 1
    assert "netfw-vlan-1=" in found.draft.prepare[0].text


def test_the_number_that_ports_have_already_is_taken_over(populated: PlanEnvironment):
    config = {"net_uuid": str(network_key(5).network), "tag": "77"}
    populated.database.plug(1, 3, tag=77, other_config=config)
    (record, port) = rows(populated.outline(Update(put={**network(5), **wiring(1, 5)})))
    assert "netfw-vlan-77" in record
    assert "tag=" not in port.partition("other_config")[0]


def test_lost_records_are_written_again_as_the_ports_have_it(env: PlanEnvironment):
    # A network without ports does not take the number that ports of another still have.
    env.wired(wired=network(2), blank=network(1))
    env.database.plug(2, ofport=2)
    env.do(Update(put=wiring(2, 2)))
    bridge = env.database.bridges["br-int"]
    env.database.bridges["br-int"] = evolve(bridge, external_ids={})
    put = {**network(1), **network(2), **wiring(2, 2)}
    found = env.do(Update(put=put, complete=True))
    assert env.database.bridges["br-int"].external_ids == bridge.external_ids
    assert not any("Port" in line for line in rows(found))


@pytest.mark.spec("L2-13")
def test_exhaustion_concerns_the_network_that_came_too_late(populated: PlanEnvironment):
    full = {f"netfw-vlan-{n}": f"{network_key(n + 9).network}/{network_key(n).network}/local//"
            for n in range(1, 4095)}  # fmt: skip
    bridge = populated.database.bridges["br-int"]
    populated.database.bridges["br-int"] = evolve(bridge, external_ids=full)
    found = populated.outline(Update(put={**network(1), **tunnel(2)}))
    assert isinstance(found.draft.refused[network_key(1)], VlansExhausted)
    assert any("vxlan-c0000202" in line for line in rows(found))


def test_of_two_devices_for_one_port_one_is_wired(populated: PlanEnvironment):
    populated.database.plug(1)
    populated.database.ports["tap9"] = evolve(
        populated.database.ports["tap1"],
        name="tap9",
        interfaces=(evolve(populated.database.ports["tap1"].interface, name="tap9", ofport=9),),
    )
    found = populated.outline(Update(put=wiring(1, 1)))
    assert {member.number for member in found.live.values()} == {9}
    assert [line.split()[2:4] for line in rows(found)] == [["tap1", "tag=4095"], ["tap9", "tag=1"]]


@pytest.mark.parametrize("iface_id", [f"{ID}".upper(), f"{{{ID}}}", f"urn:uuid:{ID}", f" {ID}"])
def test_a_device_with_a_port_id_that_is_not_canonical_has_no_port(
    populated: PlanEnvironment, iface_id: str
):
    populated.database.plug(0xAB, ofport=1)
    device = populated.database.ports["tap171"]
    other = evolve(device.interface, name="aaa", ofport=9, external_ids={"iface-id": iface_id})
    populated.database.ports["aaa"] = evolve(device, name="aaa", interfaces=(other,))
    found = populated.outline(Update(put=wiring(0xAB, 1)))
    assert {member.number for member in found.live.values()} == {1}
    assert [line.split()[2] for line in rows(found)] == ["tap171"]


def test_the_device_that_is_wired_stays_so_when_another_claims_its_port(populated: PlanEnvironment):
    populated.database.plug(1, ofport=1)
    populated.do(Update(put=wiring(1, 1)))
    device = populated.database.ports["tap1"]
    other = evolve(device.interface, name="aaa", ofport=9)
    populated.database.ports["aaa"] = evolve(
        device, name="aaa", tag=1, other_config={}, interfaces=(other,)
    )
    found = populated.do(Update(put=wiring(1, 1)))
    assert {member.number for member in found.live.values()} == {1}
    assert [line.split()[2:4] for line in rows(found)] == [["aaa", "tag=4095"]]
    assert rows(populated.outline(Update(put=wiring(1, 1)))) == []


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (network(2, "gre", segmentation_id=5), NotSupported),
        (network(2, "acme-fabric", segmentation_id=5, physical_network="physnet1"), NotSupported),
        (network(2, "flat", physical_network="elsewhere"), NotFound),
        ({peer(1): tunnel(1)[peer(1)]}, InvalidInput),
        ({port_key(1): network(1)[network_key(1)]}, InvalidInput),
    ],
)
def test_what_cannot_be_is_refused_for_its_key_alone(
    populated: PlanEnvironment, wrong: State, error: type
):
    found = populated.outline(Update(put={**wrong, **network(3)}))
    assert [type(refusal) for refusal in found.draft.refused.values()] == [error]
    assert found.put.keys() == {network_key(3)}


def test_what_is_kept_but_unknown_protects_flows_from_the_sweep(populated: PlanEnvironment):
    populated.state = SwitchState()
    keep = frozenset({network_key(1)})
    assert not populated.outline(Update(put=network(2), complete=True, keep=keep)).remove_unowned
    assert populated.outline(Update(put=network(2), complete=True)).remove_unowned


def test_without_a_sweep_no_number_is_given_back(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.wired(networks={**network(1), **network(2)}, ports=wiring(1, 1))
    restarted = PlanEnvironment()
    restarted.database = populated.database
    found = restarted.outline(Update(put=network(1), keep=frozenset({port_key(1)}), complete=True))
    assert (found.unknown_flows, found.remove_unowned, found.draft.release) == (True, False, [])
    assert len(restarted.outline(Update(put=network(1), complete=True)).draft.release) == 1


@pytest.mark.parametrize(
    ("name", "bridge", "kind"),
    [("patch-tun", "br-ex", "patch"), ("patch-tun", "br-int", ""), ("patch-int", "br-ex", "")],
)
def test_a_link_is_not_recognised_by_its_name_alone(
    env: PlanEnvironment, name: str, bridge: str, kind: str
):
    stranger = AddPort(bridge=bridge, name=name, type=kind, ofport_request=3)
    env.database.add_port(stranger)
    before = env.database.ports[name]
    overlay = network(2, "vxlan", segmentation_id=5)
    found = env.do(Update(put={**network(1), **overlay}))
    assert found.draft.refused.keys() == overlay.keys()
    (conflict,) = found.draft.refused.values()
    assert isinstance(conflict, Conflict)
    assert f"ovs-vsctl del-port {bridge} {name}" in str(conflict)
    assert env.database.ports[name] == before
    assert env.database.ports.keys() == {name, "int-br-ex", "phy-br-ex", "listen-vxlan"}
    del env.database.ports[name]
    assert not env.do(Update(put=overlay)).draft.refused
    assert env.database.ports["patch-tun"].interface.options == {"peer": "patch-int"}


@pytest.mark.spec("L2-03")
def test_networks_and_ports_wait_for_a_physical_bridge_that_is_gone(populated: PlanEnvironment):
    populated.database.plug(2, ofport=2)
    put = {**network(2, "vlan", physical_network="physnet1", segmentation_id=5), **wiring(2, 2)}
    assert not populated.do(Update(put=put)).draft.waiting
    del populated.database.bridges["br-ex"], populated.database.ports["phy-br-ex"]
    found = populated.outline(Update(put={**network(1), **put}, complete=True))
    assert found.draft.waiting == dict.fromkeys(
        put, "there is no bridge br-ex for physnet1: make it (ovs-vsctl add-br br-ex)"
    )
    assert rows(found) == []
