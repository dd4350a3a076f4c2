"""Sub-ports of trunks: wired with the device of their parent, and by a device of their own."""

import pytest
from attrs import evolve

from netfw.agents.l2.status_reports import L2StatusReporter
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import Admission, Subport, SwitchDevice
from netfw.model.resource import ref
from netfw.model.trunk import TrunkMembership
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import TrunkId
from netfw.plan import Outcome
from tests.unit.agents.l2.environment import (
    HERE,
    NET,
    OTHER,
    OTHER_SEGMENT,
    SEGMENT,
    THERE,
    learn,
    port,
    uuid,
)
from tests.unit.agents.l2.switch_samples import PORT, desired, local, wiring

pytestmark = pytest.mark.spec("L2-81")

TRUNK = TrunkId(uuid(900))
PARENT = evolve(PORT, trunk=TrunkMembership(trunk_id=TRUNK))
MEMBER = TrunkMembership(trunk_id=TRUNK, parent_id=PARENT.id, segmentation_id=5)
SUB = port(2, OTHER, trunk=MEMBER, device_owner="trunk:subport")
OWN_DEVICE = SwitchDevice(name="sub1", ofport=7)
SUBPORT = Subport(PARENT.id, 5)
KEY = PortKey(SUB.id)


def site(*resources, plugged=(PARENT,), **options):
    everything = (NET, SEGMENT, OTHER, OTHER_SEGMENT, PARENT, SUB, *resources)
    return desired(*everything, plugged=plugged, sub_ports=True, **options)


def reported(state, outcome=None):
    statuses = L2StatusReporter()
    if outcome is not None:
        statuses.record(outcome, {})
    statuses.touch([SUB.id])
    (report,) = statuses.take(state, frozenset())
    return report.status, report.reason


def test_a_sub_port_is_on_hold_until_the_switch_has_made_its_device():
    state = site()
    assert state.values[KEY] == wiring(SUB, Admission.HOLD, subport=SUBPORT)
    assert state.values[NetworkKey(OTHER.id)] == local(OTHER, OTHER_SEGMENT)
    state.plug(SUB.id, OWN_DEVICE)
    assert state.values[KEY] == wiring(SUB, subport=SUBPORT)
    assert state.values[PortKey(PARENT.id)] == wiring(PARENT)


def test_a_sub_port_comes_and_goes_with_the_device_of_its_parent():
    state = site(plugged=())
    assert KEY not in state.values
    state.plug(SUB.id, OWN_DEVICE)
    assert KEY not in state.values
    state.plug(PARENT.id, OWN_DEVICE)
    assert state.values[KEY].admission is Admission.LIVE
    state.plug(PARENT.id, None)
    assert KEY not in state.values
    assert reported(state)[1] == "its parent port is not plugged on this host"


def test_a_port_that_leaves_its_trunk_or_its_host_is_not_wired():
    state = site()
    state.plug(SUB.id, OWN_DEVICE)
    learn(state, [evolve(SUB, trunk=None, revision=2, binding=port(9, OTHER, "").binding)])
    assert KEY not in state.values
    assert SUB.id in state.unbound
    learn(state, [evolve(SUB, revision=3, binding=port(9, OTHER, THERE).binding)])
    assert KEY not in state.values


def test_a_sub_port_gets_another_tag():
    state = site()
    state.plug(SUB.id, OWN_DEVICE)
    learn(state, [evolve(SUB, trunk=evolve(MEMBER, segmentation_id=6), revision=2)])
    assert state.values[KEY].subport == Subport(PARENT.id, 6)


@pytest.mark.parametrize("port_security", [False, True])
def test_a_firewall_that_filters_at_devices_has_no_place_for_sub_ports(port_security):
    state = site(evolve(SUB, port_security=port_security), filters_devices=True)
    decision = state.decision(SUB.id)
    assert (decision.is_error, decision.wiring.admission) == (True, Admission.DEAD)
    assert "firewall_driver = openflow" in decision.reason


def test_the_device_of_a_sub_port_is_made_ahead_where_the_host_prepares_for_it():
    parent = evolve(PARENT, binding=port(1, NET, THERE, prepared=(HERE,)).binding)
    prepared = port(2, OTHER, THERE, prepared=(HERE,), trunk=MEMBER)
    state = site(parent, prepared)
    assert state.values[PortKey(PARENT.id)].admission is Admission.DEAD
    assert state.values[KEY] == wiring(prepared, Admission.HOLD, subport=SUBPORT)
    state.plug(SUB.id, OWN_DEVICE)
    assert state.values[KEY].admission is Admission.DEAD
    learn(state, [evolve(SUB, revision=2), evolve(PARENT, revision=2)])
    assert state.values[KEY].admission is Admission.LIVE
    learn(state, [evolve(prepared, revision=3), evolve(parent, revision=3)])
    assert state.values[KEY].admission is Admission.DEAD, "it may be live at one host only"
    state.plug(PARENT.id, None)
    state.plug(SUB.id, None)
    assert KEY not in state.values


def test_a_switch_without_sub_ports_says_so():
    everything = (NET, SEGMENT, OTHER, OTHER_SEGMENT, PARENT, SUB)
    decision = desired(*everything, plugged=(PARENT,)).decision(SUB.id)
    assert decision.is_error
    assert "switch driver" in decision.reason


def test_the_status_says_what_a_sub_port_waits_for():
    state = site()
    waiting = Outcome(waiting={KEY: "its device is being made"})
    assert reported(state, waiting) == (Status.DOWN, "its device is being made")


def test_the_order_of_arrival_does_not_matter():
    late = desired(plugged=(), sub_ports=True)
    late.plug(SUB.id, OWN_DEVICE)
    for resource in (SUB, OTHER_SEGMENT, PARENT, OTHER, NET, SEGMENT):
        learn(late, [resource])
    late.plug(PARENT.id, OWN_DEVICE)
    early = site()
    early.plug(SUB.id, OWN_DEVICE)
    early.plug(PARENT.id, OWN_DEVICE)
    assert late.values == early.values
    learn(late, drop=[ref(SUB)])
    assert KEY not in late.values
