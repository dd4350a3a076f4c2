"""Plans of ports that are live, on hold, dead or waiting."""

from ipaddress import IPv4Network

import pytest
from attrs import evolve

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import Admission, SwitchKey, SwitchValue
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.tables import COOKIE, GUARDED_PORT
from netfw_drivers.ovs.switch.plan.outline import PlanOutline
from netfw_drivers.ovs.switch.plan.recovery import recover_state
from netfw_drivers.ovs.switch.plan.state import DomainMembers, SwitchState
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment
from tests.unit.backends.ovs.switch.samples import (
    SETTINGS,
    network,
    network_key,
    port_key,
    rows,
    wiring,
)


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
    populated.state, populated.members = SwitchState(), DomainMembers()
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
    populated.state, populated.members = SwitchState(), DomainMembers()  # a restart
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
        DomainMembers(),
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


@pytest.mark.spec("L2-61")
@pytest.mark.parametrize("before", [False, True])
def test_a_live_port_on_hold_keeps_its_mac_shared_or_not(populated: PlanEnvironment, before: bool):
    def is_shared(found: PlanOutline) -> bool:
        (member,) = found.live.values()
        return member.shared_mac

    populated.database.plug(1, 5)
    assert is_shared(populated.do(Update(put=wiring(1, 1, shared_mac=before)))) == before
    held = wiring(1, 1, Admission.HOLD, shared_mac=not before)
    assert is_shared(populated.do(Update(put=held))) == before
    populated.state, populated.members = SwitchState(), DomainMembers()  # a restart
    recovered = recover_state((), populated.database.observed(), SETTINGS)
    assert is_shared(populated.do(Update(put=recovered))) == before
    assert is_shared(populated.do(Update(put=wiring(1, 1, shared_mac=not before)))) != before


def test_a_port_that_was_dead_is_filtered_when_it_lives(populated: PlanEnvironment):
    populated.database.plug(1, 5)
    populated.do(Update(put=wiring(1, 1, Admission.HOLD, filtered=True)))
    assert is_filtered(populated.do(Update(put=wiring(1, 1, filtered=True))))


def test_a_later_run_knows_which_ports_are_filtered(populated: PlanEnvironment):
    for number, filtered in ((1, True), (2, False)):
        populated.database.plug(number, number)
        populated.do(Update(put=wiring(number, 1, filtered=filtered)))
    populated.state, populated.members = SwitchState(), DomainMembers()
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
