"""What the switch driver asks of the database, by value."""

from collections.abc import Mapping
from ipaddress import IPv4Network

import pytest
from attrs import evolve

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import Admission, Flood, FloodKey, SwitchKey, SwitchValue
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


class PlanEnvironment:
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
def env() -> PlanEnvironment:
    return PlanEnvironment()


@pytest.fixture
def populated(env: PlanEnvironment) -> PlanEnvironment:
    """With bridges, their links and one local network."""
    env.do(Update(put=network(1)))
    return env


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
    populated.state, populated.members = SwitchState(), Members()
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
    """A network without ports does not take the number that ports of another still have."""
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


@pytest.mark.spec("L2-11", "L2-13")
def test_a_port_is_recorded_and_then_lives_by_flows_alone(populated: PlanEnvironment):
    populated.database.plug(1, 5, tag=4095)
    held = populated.do(Update(put=wiring(1, 1, Admission.HOLD)))
    assert rows(held) == [
        "set Port tap1 tag=1 vlan_mode=(none) trunks=() "
        f"other_config:net_uuid={network_key(1).network} other_config:network_type=local "
        "other_config:tag=1"
    ]
    assert held.live == {}
    live = populated.do(Update(put=wiring(1, 1)))
    assert rows(live) == []
    assert {member.number for member in live.live.values()} == {5}
    again = populated.outline(Update(put=wiring(1, 1, Admission.HOLD)))
    assert again.live == live.live


@pytest.mark.spec("L2-40")
def test_what_lives_is_known_by_its_flows_after_a_restart(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.database.plug(2, 6)
    populated.do(Update(put={**wiring(1, 1), **wiring(2, 1, Admission.HOLD)}))
    populated.state, populated.members = SwitchState(), Members()
    held = {**wiring(1, 1, Admission.HOLD), **wiring(2, 1, Admission.HOLD)}
    found = populated.outline(Update(put={**network(1), **held}, complete=True))
    assert found.live.keys() == {port_key(1)}
    assert rows(found) == []


def test_a_port_on_hold_does_not_take_its_life_to_another_network(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.do(Update(put={**network(2), **wiring(1, 1)}))
    found = populated.outline(Update(put=wiring(1, 2, Admission.HOLD)))
    assert found.live == {}


def is_filtered(found: PlanOutline) -> bool:
    (member,) = found.live.values()
    return member.filtered


@pytest.mark.spec("FW-09")
@pytest.mark.parametrize("before", [False, True])
def test_a_live_port_on_hold_stays_filtered_or_not(populated: PlanEnvironment, before: bool):
    populated.database.plug(1, 5)
    assert is_filtered(populated.do(Update(put=wiring(1, 1, filtered=before)))) == before
    held = wiring(1, 1, Admission.HOLD, filtered=not before)
    assert is_filtered(populated.do(Update(put=held))) == before
    populated.state, populated.members = SwitchState(), Members()  # a restart
    assert is_filtered(populated.do(Update(put={**network(1), **held}, complete=True))) == before
    assert is_filtered(populated.do(Update(put=wiring(1, 1, filtered=not before)))) != before


@pytest.mark.spec("FW-05", "FW-09")
def test_a_live_port_on_hold_stays_guarded_until_a_firewall_guards_it(populated: PlanEnvironment):
    guard = frozenset({AllowedSource("fa:16:3e:00:00:01", IPv4Network("10.0.0.1/32"))})

    def is_guarded() -> bool:
        return bool(populated.database.admissions[5] & GUARDED_PORT)

    populated.database.plug(1, 5)
    populated.do(Update(put=wiring(1, 1, guard=guard)))
    before = dict(populated.flows["br-int"].observed)
    populated.state, populated.members = (
        SwitchState(),
        Members(),
    )  # an agent that has a firewall now
    held = {**network(1), **wiring(1, 1, Admission.HOLD, guard=guard, filtered=True)}
    populated.do(Update(put=held, complete=True))
    assert populated.flows["br-int"].observed == before
    populated.do(Update(put=wiring(1, 1, filtered=True)))
    assert not is_guarded()
    populated.do(Update(put=held))
    assert not is_guarded()
    populated.do(Update(put=wiring(1, 1, guard=guard)))
    assert is_guarded()


def test_a_port_that_was_dead_is_filtered_when_it_lives(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.do(Update(put=wiring(1, 1, Admission.HOLD, filtered=True)))
    assert is_filtered(populated.do(Update(put=wiring(1, 1, filtered=True))))


def test_a_later_run_knows_which_ports_are_filtered(populated: PlanEnvironment):
    for number, filtered in ((1, True), (2, False)):
        populated.database.plug(number, number)
        populated.do(Update(put=wiring(number, 1, filtered=filtered)))
    populated.state, populated.members = SwitchState(), Members()
    found = populated.outline(
        Update(put=recover_state((), populated.database.observed(), SETTINGS))
    )
    assert {key: member.filtered for key, member in found.live.items()} == {
        port_key(1): True,
        port_key(2): False,
    }


@pytest.mark.spec("L2-12")
def test_a_dead_port_is_on_the_dead_vlan_and_has_no_flows(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.do(Update(put=wiring(1, 1)))
    dead = populated.do(Update(put=wiring(1, 1, Admission.DEAD)))
    assert "tag=4095" in rows(dead)[0]
    assert populated.database.ports["tap1"].other_config == {
        "net_uuid": str(network_key(1).network)
    }
    assert dead.live == {}
    gone = populated.do(Update(drop=frozenset({port_key(1)})))
    assert rows(gone) == ["set Port tap1 other_config:net_uuid=(none)"]


@pytest.mark.spec("L2-11")
def test_ports_wait_for_what_they_need_and_say_what(populated: PlanEnvironment):
    populated.database.plug(2)
    populated.database.plug(3, 7)
    found = populated.outline(Update(put={**wiring(1, 1), **wiring(2, 1), **wiring(3, 9)}))
    assert found.draft.waiting == {
        port_key(1): "no device was plugged for it yet",
        port_key(2): "the switch has not numbered its device yet",
        port_key(3): f"network {network_key(9).network} is not on this host yet",
    }


def test_the_row_of_a_port_is_written_while_the_switch_numbers_it(populated: PlanEnvironment):
    populated.database.plug(1)
    populated.database.plug(2)
    populated.do(Update(put={**wiring(1, 1), **wiring(2, 1, Admission.HOLD)}))
    assert (populated.database.ports["tap1"].tag, populated.database.ports["tap2"].tag) == (1, 4095)
    assert "net_uuid" not in populated.database.ports["tap2"].other_config
    for number, ofport in ((1, 5), (2, 6)):
        port = populated.database.ports[f"tap{number}"]
        numbered = (evolve(port.interface, ofport=ofport),)
        populated.database.ports[port.name] = evolve(port, interfaces=numbered)
    populated.database.admissions[6] = COOKIE  # flows of whoever had the number before
    found = populated.outline(Update(put={**wiring(1, 1), **wiring(2, 1, Admission.HOLD)}))
    assert found.live.keys() == {port_key(1)}
    assert [line.split()[2] for line in rows(found)] == ["tap2"]


def test_many_rows_change_in_portions(populated: PlanEnvironment):
    many: dict[SwitchKey, SwitchValue] = {}
    for number in range(1, 256):
        populated.database.plug(number, number)
        many |= wiring(number, 1)
    found = populated.outline(Update(put=many))
    assert [len(stage.operations) for stage in found.draft.before()] == [250, 5]


def test_a_port_that_waited_is_wired_when_its_network_comes(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.do(Update(put=wiring(1, 2)))
    found = populated.outline(Update(put=network(2)))
    assert found.live.keys() == {port_key(1)}


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


@pytest.mark.parametrize("said", [f"{ID}".upper(), f"{{{ID}}}", f"urn:uuid:{ID}", f" {ID}"])
def test_a_device_with_a_port_id_that_is_not_canonical_has_no_port(
    populated: PlanEnvironment, said: str
):
    populated.database.plug(0xAB, ofport=1)
    device = populated.database.ports["tap171"]
    other = evolve(device.interface, name="aaa", ofport=9, external_ids={"iface-id": said})
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


@pytest.mark.spec("L2-32")
def test_tunnels_are_named_by_type_and_peer_and_request_a_number(populated: PlanEnvironment):
    found = populated.outline(Update(put=tunnel(2, mesh=True)))
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


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (network(2, "gre", segmentation_id=5), NotSupported),
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
