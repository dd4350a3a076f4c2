"""What the switch driver asks of the database, by value."""

from collections.abc import Mapping
from ipaddress import IPv4Network

import pytest
from attrs import evolve

from netfw.drivers.allowed_source import AllowedSource
from netfw.drivers.switch_values import Admission, Flood, FloodKey, SwitchKey, SwitchValue
from netfw.errors import Conflict, InvalidInput, NotFound, NotSupported
from netfw.ovs.openflow.encode import canonical, cookie_of
from netfw.ovs.openflow.flow_cache import FlowCache
from netfw.ovs.ovsdb.operations import AddPort
from netfw.plan import Update
from netfw_drivers.ovs.common.local_vlans import VlansExhausted
from netfw_drivers.ovs.pipeline.br_int import admission_key
from netfw_drivers.ovs.pipeline.tables import COOKIE, GUARDED_PORT
from netfw_drivers.ovs.switch.plan.plan import PlanOutline, outline
from netfw_drivers.ovs.switch.plan.ports import recover_state
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import Members, SwitchState
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    Database,
    network,
    network_key,
    peer,
    port_key,
    rows,
    tunnel,
    wiring,
)

State = Mapping[SwitchKey, SwitchValue]
ID = port_key(0xAB).port


class Scene:
    """A driver's memory and a database, brought from state to state."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings, self.database = settings, Database()
        self.state, self.members = SwitchState(), Members()
        self.flows = {bridge: FlowCache() for bridge in settings.bridges}

    def outline(self, update: Update[SwitchKey, SwitchValue]) -> PlanOutline:
        observed = self.database.observed(self.state, self.members)
        return outline(update, observed, self.settings)

    def do(self, update: Update[SwitchKey, SwitchValue]) -> PlanOutline:
        found = self.outline(update)
        for stage in (*found.draft.before(), *found.draft.after()):
            self.database.run(stage.operations)
        for bridge, flows in self.flows.items():
            put, drop = found.groups.put.get(bridge, {}), found.groups.drop.get(bridge, ())
            flows.confirm(flows.plan(put, drop))
        self.state.commit(found.put, found.drop)
        self.members.commit(found.live, found.concerned)
        cookies = {
            member.number: self.flows["br-int"].observed.get(
                canonical(admission_key(member.number))
            )
            for member in self.members.ports.values()
        }
        self.database.admissions = {
            number: cookie_of(found) for number, found in cookies.items() if found is not None
        }
        return found

    def wired(self, **state: State) -> None:
        for part in state.values():
            self.do(Update(put=part))


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def ground(scene: Scene) -> Scene:
    """With bridges and cables, and one local network."""
    scene.do(Update(put=network(1)))
    return scene


@pytest.mark.spec("L2-02", "L2-03", "L2-04")
def test_bridges_and_links_come_first_and_are_joined_last(scene: Scene):
    found = scene.outline(Update(put=network(1)))
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
    added = [o.payload for o in found.draft.prepare if o.text.startswith("add port")]
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


def test_where_all_is_as_it_should_be_nothing_is_done(ground: Scene):
    assert rows(ground.outline(Update(put=network(1)))) == []


def test_a_bridge_with_another_fail_mode_is_made_secure_again(ground: Scene):
    bridge = ground.database.bridges["br-int"]
    ground.database.bridges["br-int"] = evolve(bridge, fail_mode="standalone")
    assert rows(ground.outline(Update(put=network(1)))) == ["set Bridge br-int fail_mode=secure"]


@pytest.mark.spec("L2-13")
def test_a_number_is_recorded_before_anything_uses_it_and_given_back_after(ground: Scene):
    provider = {"physical_network": "physnet1", "segmentation_id": 9}
    found = ground.do(Update(put=network(2, "vlan", **provider)))
    assert rows(found) == [
        "set Bridge br-int external_ids:netfw-vlan-2=00000000-0000-0002-0000-000000000000/"
        "00000000-0000-0002-0000-000000000001/vlan/physnet1/9"
    ]
    assert found.draft.release == []
    gone = ground.outline(Update(drop=frozenset({network_key(2)})))
    assert [operation.text for operation in gone.draft.release] == [
        "set Bridge br-int external_ids:netfw-vlan-2=(none)"
    ]


@pytest.mark.spec("L2-06")
def test_a_restarted_driver_finds_the_numbers_again(ground: Scene):
    ground.do(Update(put=network(2)))
    ground.do(Update(drop=frozenset({network_key(1)})))
    ground.state, ground.members = SwitchState(), Members()
    found = ground.outline(Update(put={**network(3), **network(2)}, complete=True))
    assert found.draft.release == []
    assert len(found.draft.prepare) == 1
    assert "netfw-vlan-1=" in found.draft.prepare[0].text


def test_the_number_that_ports_have_already_is_taken_over(ground: Scene):
    config = {"net_uuid": str(network_key(5).network), "tag": "77"}
    ground.database.plug(1, 3, tag=77, other_config=config)
    (record, port) = rows(ground.outline(Update(put={**network(5), **wiring(1, 5)})))
    assert "netfw-vlan-77" in record
    assert "tag=" not in port.partition("other_config")[0]


def test_lost_records_are_written_again_as_the_ports_have_it(scene: Scene):
    """A network without ports does not take the number that ports of another still have."""
    scene.wired(wired=network(2), blank=network(1))
    scene.database.plug(2, ofport=2)
    scene.do(Update(put=wiring(2, 2)))
    bridge = scene.database.bridges["br-int"]
    scene.database.bridges["br-int"] = evolve(bridge, external_ids={})
    put = {**network(1), **network(2), **wiring(2, 2)}
    found = scene.do(Update(put=put, complete=True))
    assert scene.database.bridges["br-int"].external_ids == bridge.external_ids
    assert not any("Port" in line for line in rows(found))


@pytest.mark.spec("L2-13")
def test_exhaustion_concerns_the_network_that_came_too_late(ground: Scene):
    full = {f"netfw-vlan-{n}": f"{network_key(n + 9).network}/{network_key(n).network}/local//"
            for n in range(1, 4095)}  # fmt: skip
    bridge = ground.database.bridges["br-int"]
    ground.database.bridges["br-int"] = evolve(bridge, external_ids=full)
    found = ground.outline(Update(put={**network(1), **tunnel(2)}))
    assert isinstance(found.draft.refused[network_key(1)], VlansExhausted)
    assert any("vxlan-c0000202" in line for line in rows(found))


@pytest.mark.spec("L2-11", "L2-13")
def test_a_port_is_recorded_and_then_lives_by_flows_alone(ground: Scene):
    ground.database.plug(1, 5, tag=4095)
    held = ground.do(Update(put=wiring(1, 1, Admission.HOLD)))
    assert rows(held) == [
        "set Port tap1 tag=1 vlan_mode=(none) trunks=() "
        f"other_config:net_uuid={network_key(1).network} other_config:network_type=local "
        "other_config:tag=1"
    ]
    assert held.live == {}
    live = ground.do(Update(put=wiring(1, 1)))
    assert rows(live) == []
    assert {member.number for member in live.live.values()} == {5}
    again = ground.outline(Update(put=wiring(1, 1, Admission.HOLD)))
    assert again.live == live.live


@pytest.mark.spec("L2-40")
def test_what_lives_is_known_by_its_flows_after_a_restart(ground: Scene):
    ground.database.plug(1, 5)
    ground.database.plug(2, 6)
    ground.do(Update(put={**wiring(1, 1), **wiring(2, 1, Admission.HOLD)}))
    ground.state, ground.members = SwitchState(), Members()
    held = {**wiring(1, 1, Admission.HOLD), **wiring(2, 1, Admission.HOLD)}
    found = ground.outline(Update(put={**network(1), **held}, complete=True))
    assert found.live.keys() == {port_key(1)}
    assert rows(found) == []


def test_a_port_on_hold_does_not_take_its_life_to_another_network(ground: Scene):
    ground.database.plug(1, 5)
    ground.do(Update(put={**network(2), **wiring(1, 1)}))
    found = ground.outline(Update(put=wiring(1, 2, Admission.HOLD)))
    assert found.live == {}


def is_filtered(found: PlanOutline) -> bool:
    (member,) = found.live.values()
    return member.filtered


@pytest.mark.spec("FW-09")
@pytest.mark.parametrize("before", [False, True])
def test_a_live_port_on_hold_stays_filtered_or_not(ground: Scene, before: bool):
    ground.database.plug(1, 5)
    assert is_filtered(ground.do(Update(put=wiring(1, 1, filtered=before)))) == before
    held = wiring(1, 1, Admission.HOLD, filtered=not before)
    assert is_filtered(ground.do(Update(put=held))) == before
    ground.state, ground.members = SwitchState(), Members()  # a restart
    assert is_filtered(ground.do(Update(put={**network(1), **held}, complete=True))) == before
    assert is_filtered(ground.do(Update(put=wiring(1, 1, filtered=not before)))) != before


@pytest.mark.spec("FW-05", "FW-09")
def test_a_live_port_on_hold_stays_guarded_until_a_firewall_guards_it(ground: Scene):
    guard = frozenset({AllowedSource("fa:16:3e:00:00:01", IPv4Network("10.0.0.1/32"))})

    def is_guarded() -> bool:
        return bool(ground.database.admissions[5] & GUARDED_PORT)

    ground.database.plug(1, 5)
    ground.do(Update(put=wiring(1, 1, guard=guard)))
    before = dict(ground.flows["br-int"].observed)
    ground.state, ground.members = SwitchState(), Members()  # an agent that has a firewall now
    held = {**network(1), **wiring(1, 1, Admission.HOLD, guard=guard, filtered=True)}
    ground.do(Update(put=held, complete=True))
    assert ground.flows["br-int"].observed == before
    ground.do(Update(put=wiring(1, 1, filtered=True)))
    assert not is_guarded()
    ground.do(Update(put=held))
    assert not is_guarded()
    ground.do(Update(put=wiring(1, 1, guard=guard)))
    assert is_guarded()


def test_a_port_that_was_dead_is_filtered_when_it_lives(ground: Scene):
    ground.database.plug(1, 5)
    ground.do(Update(put=wiring(1, 1, Admission.HOLD, filtered=True)))
    assert is_filtered(ground.do(Update(put=wiring(1, 1, filtered=True))))


def test_a_later_run_knows_which_ports_are_filtered(ground: Scene):
    for number, filtered in ((1, True), (2, False)):
        ground.database.plug(number, number)
        ground.do(Update(put=wiring(number, 1, filtered=filtered)))
    ground.state, ground.members = SwitchState(), Members()
    found = ground.outline(Update(put=recover_state((), ground.database.observed(), SETTINGS)))
    assert {key: member.filtered for key, member in found.live.items()} == {
        port_key(1): True,
        port_key(2): False,
    }


@pytest.mark.spec("L2-12")
def test_a_dead_port_is_on_the_dead_vlan_and_has_no_flows(ground: Scene):
    ground.database.plug(1, 5)
    ground.do(Update(put=wiring(1, 1)))
    dead = ground.do(Update(put=wiring(1, 1, Admission.DEAD)))
    assert "tag=4095" in rows(dead)[0]
    assert ground.database.ports["tap1"].other_config == {"net_uuid": str(network_key(1).network)}
    assert dead.live == {}
    gone = ground.do(Update(drop=frozenset({port_key(1)})))
    assert rows(gone) == ["set Port tap1 other_config:net_uuid=(none)"]


@pytest.mark.spec("L2-11")
def test_ports_wait_for_what_they_need_and_say_what(ground: Scene):
    ground.database.plug(2)
    ground.database.plug(3, 7)
    found = ground.outline(Update(put={**wiring(1, 1), **wiring(2, 1), **wiring(3, 9)}))
    assert found.draft.waiting == {
        port_key(1): "no device was plugged for it yet",
        port_key(2): "the switch has not numbered its device yet",
        port_key(3): f"network {network_key(9).network} is not on this host yet",
    }


def test_the_row_of_a_port_is_written_while_the_switch_numbers_it(ground: Scene):
    ground.database.plug(1)
    ground.database.plug(2)
    ground.do(Update(put={**wiring(1, 1), **wiring(2, 1, Admission.HOLD)}))
    assert (ground.database.ports["tap1"].tag, ground.database.ports["tap2"].tag) == (1, 4095)
    assert "net_uuid" not in ground.database.ports["tap2"].other_config
    for number, ofport in ((1, 5), (2, 6)):
        port = ground.database.ports[f"tap{number}"]
        numbered = (evolve(port.interface, ofport=ofport),)
        ground.database.ports[port.name] = evolve(port, interfaces=numbered)
    ground.database.admissions[6] = COOKIE  # flows of whoever had the number before
    found = ground.outline(Update(put={**wiring(1, 1), **wiring(2, 1, Admission.HOLD)}))
    assert found.live.keys() == {port_key(1)}
    assert [line.split()[2] for line in rows(found)] == ["tap2"]


def test_many_rows_change_in_portions(ground: Scene):
    many: dict[SwitchKey, SwitchValue] = {}
    for number in range(1, 256):
        ground.database.plug(number, number)
        many |= wiring(number, 1)
    found = ground.outline(Update(put=many))
    assert [len(stage.operations) for stage in found.draft.before()] == [250, 5]


def test_a_port_that_waited_is_wired_when_its_network_comes(ground: Scene):
    ground.database.plug(1, 5)
    ground.do(Update(put=wiring(1, 2)))
    found = ground.outline(Update(put=network(2)))
    assert found.live.keys() == {port_key(1)}


def test_of_two_devices_for_one_port_one_is_wired(ground: Scene):
    ground.database.plug(1)
    ground.database.ports["tap9"] = evolve(
        ground.database.ports["tap1"],
        name="tap9",
        interfaces=(evolve(ground.database.ports["tap1"].interface, name="tap9", ofport=9),),
    )
    found = ground.outline(Update(put=wiring(1, 1)))
    assert {member.number for member in found.live.values()} == {9}
    assert [line.split()[2:4] for line in rows(found)] == [["tap1", "tag=4095"], ["tap9", "tag=1"]]


@pytest.mark.parametrize("said", [f"{ID}".upper(), f"{{{ID}}}", f"urn:uuid:{ID}", f" {ID}"])
def test_a_device_with_a_port_id_that_is_not_canonical_has_no_port(ground: Scene, said: str):
    ground.database.plug(0xAB, ofport=1)
    device = ground.database.ports["tap171"]
    other = evolve(device.interface, name="aaa", ofport=9, external_ids={"iface-id": said})
    ground.database.ports["aaa"] = evolve(device, name="aaa", interfaces=(other,))
    found = ground.outline(Update(put=wiring(0xAB, 1)))
    assert {member.number for member in found.live.values()} == {1}
    assert [line.split()[2] for line in rows(found)] == ["tap171"]


def test_the_device_that_is_wired_stays_so_when_another_claims_its_port(ground: Scene):
    ground.database.plug(1, ofport=1)
    ground.do(Update(put=wiring(1, 1)))
    device = ground.database.ports["tap1"]
    other = evolve(device.interface, name="aaa", ofport=9)
    ground.database.ports["aaa"] = evolve(
        device, name="aaa", tag=1, other_config={}, interfaces=(other,)
    )
    found = ground.do(Update(put=wiring(1, 1)))
    assert {member.number for member in found.live.values()} == {1}
    assert [line.split()[2:4] for line in rows(found)] == [["aaa", "tag=4095"]]
    assert rows(ground.outline(Update(put=wiring(1, 1)))) == []


@pytest.mark.spec("L2-32")
def test_tunnels_are_named_by_type_and_peer_and_request_a_number(ground: Scene):
    found = ground.outline(Update(put=tunnel(2, mesh=True)))
    (operation,) = found.draft.prepare
    assert operation.payload.name == "vxlan-c0000202"
    assert operation.payload.options == {
        "remote_ip": "192.0.2.2",
        "local_ip": "192.0.2.1",
        "in_key": "flow",
        "out_key": "flow",
        "df_default": "true",
    }
    assert found.draft.requested == {"vxlan-c0000202": operation.payload.ofport_request}
    assert found.draft.waiting == {}


def test_a_tunnel_with_other_options_is_repaired(ground: Scene):
    ground.do(Update(put=tunnel(2)))
    port = ground.database.ports["vxlan-c0000202"]
    options = {**port.interface.options, "remote_ip": "192.0.2.99", "csum": "true"}
    ground.database.ports[port.name] = evolve(
        port, interfaces=(evolve(port.interface, options=options),)
    )
    assert rows(ground.outline(Update(put=tunnel(2)))) == [
        "set Interface vxlan-c0000202 options:remote_ip=192.0.2.2 options:csum=(none)"
    ]


def test_the_name_of_a_stranger_is_a_conflict(ground: Scene):
    ground.database.plug(1, 5)
    ground.database.ports["vxlan-c0000202"] = evolve(
        ground.database.ports.pop("tap1"), name="vxlan-c0000202", bridge="br-tun"
    )
    found = ground.outline(Update(put={**tunnel(2), **tunnel(3)}))
    assert isinstance(found.draft.refused[peer(2)], Conflict)
    assert len(rows(found)) == 1


def test_many_tunnels_are_removed_a_few_at_a_time(ground: Scene):
    many: dict[SwitchKey, SwitchValue] = {}
    for number in range(2, 27):
        many |= tunnel(number)
    ground.do(Update(put=many))
    found = ground.outline(Update(drop=frozenset(many)))
    assert [len(stage.operations) for stage in found.draft.after()] == [10, 10, 5]
    assert list(found.draft.before()) == []


@pytest.mark.spec("L2-31")
def test_one_more_peer_of_a_network_costs_the_group_of_that_network(ground: Scene):
    overlay = network(2, "vxlan", segmentation_id=7)
    other = network(3, "vxlan", segmentation_id=8)
    ground.do(Update(put={**overlay, **other, **tunnel(2), **tunnel(3)}))
    flood = FloodKey(network_key(2).network, peer(2))
    found = ground.outline(Update(put={flood: Flood()}))
    touched = {owner for owner in found.groups.put["br-tun"] if owner[1] != "base"}
    assert touched == {("switch", network_key(2))}


def test_entries_wait_for_network_and_tunnel(ground: Scene):
    flood = FloodKey(network_key(2).network, peer(2))
    assert "network" in ground.outline(Update(put={flood: Flood()})).draft.waiting[flood]
    ground.do(Update(put=network(2, "vxlan", segmentation_id=7)))
    assert "tunnel" in ground.outline(Update(put={flood: Flood()})).draft.waiting[flood]
    ground.do(Update(put=tunnel(2)))
    assert ground.outline(Update(put={flood: Flood()})).draft.waiting == {}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (network(2, "gre", segmentation_id=5), NotSupported),
        (network(2, "flat", physical_network="elsewhere"), NotFound),
        ({peer(1): tunnel(1)[peer(1)]}, InvalidInput),
        ({port_key(1): network(1)[network_key(1)]}, InvalidInput),
    ],
)
def test_what_cannot_be_is_refused_for_its_key_alone(ground: Scene, wrong: State, error: type):
    found = ground.outline(Update(put={**wrong, **network(3)}))
    assert [type(refusal) for refusal in found.draft.refused.values()] == [error]
    assert found.put.keys() == {network_key(3)}


def test_what_is_kept_but_unknown_protects_flows_from_the_sweep(ground: Scene):
    ground.state = SwitchState()
    keep = frozenset({network_key(1)})
    assert not ground.outline(Update(put=network(2), complete=True, keep=keep)).remove_unowned
    assert ground.outline(Update(put=network(2), complete=True)).remove_unowned


def test_without_a_sweep_no_number_is_given_back(ground: Scene):
    ground.database.plug(1, 5)
    ground.wired(networks={**network(1), **network(2)}, ports=wiring(1, 1))
    restarted = Scene()
    restarted.database = ground.database
    found = restarted.outline(Update(put=network(1), keep=frozenset({port_key(1)}), complete=True))
    assert (found.unknown_flows, found.remove_unowned, found.draft.release) == (True, False, [])
    assert len(restarted.outline(Update(put=network(1), complete=True)).draft.release) == 1


@pytest.mark.parametrize(
    ("name", "bridge", "kind"),
    [("patch-tun", "br-ex", "patch"), ("patch-tun", "br-int", ""), ("patch-int", "br-ex", "")],
)
def test_a_link_is_not_recognised_by_its_name_alone(
    scene: Scene, name: str, bridge: str, kind: str
):
    stranger = AddPort(bridge=bridge, name=name, type=kind, ofport_request=3)
    scene.database.add_port(stranger)
    before = scene.database.ports[name]
    overlay = network(2, "vxlan", segmentation_id=5)
    found = scene.do(Update(put={**network(1), **overlay}))
    assert found.draft.refused.keys() == overlay.keys()
    (conflict,) = found.draft.refused.values()
    assert isinstance(conflict, Conflict)
    assert f"ovs-vsctl del-port {bridge} {name}" in str(conflict)
    assert scene.database.ports[name] == before
    assert scene.database.ports.keys() == {name, "int-br-ex", "phy-br-ex", "listen-vxlan"}
    del scene.database.ports[name]
    assert not scene.do(Update(put=overlay)).draft.refused
    assert scene.database.ports["patch-tun"].interface.options == {"peer": "patch-int"}


@pytest.mark.spec("L2-03")
def test_networks_and_ports_wait_for_a_physical_bridge_that_is_gone(ground: Scene):
    ground.database.plug(2, ofport=2)
    put = {**network(2, "vlan", physical_network="physnet1", segmentation_id=5), **wiring(2, 2)}
    assert not ground.do(Update(put=put)).draft.waiting
    del ground.database.bridges["br-ex"], ground.database.ports["phy-br-ex"]
    found = ground.outline(Update(put={**network(1), **put}, complete=True))
    assert found.draft.waiting == dict.fromkeys(
        put, "there is no bridge br-ex for physnet1: make it (ovs-vsctl add-br br-ex)"
    )
    assert rows(found) == []
