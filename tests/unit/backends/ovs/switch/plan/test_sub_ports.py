"""Plans of sub-ports: their pairs of patch ports, and the flows between those and the parent."""

import pytest
from attrs import evolve

from netfw.drivers.values.switch_values import Admission, Subport
from netfw.errors import Conflict
from netfw.ovs.ovsdb.operations import AddPort, RemovePort
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.br_int import PlannedSubport
from netfw_drivers.ovs.switch.plan.sub_ports import sub_port_name, subport_of, trunk_end_name
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment
from tests.unit.backends.ovs.switch.samples import network, port_key, rows, wiring

pytestmark = pytest.mark.spec("L2-81")

PARENT, SUB = 1, 2
INNER, OUTER = sub_port_name(port_key(SUB).port), trunk_end_name(port_key(SUB).port)


def sub_port(admission: Admission = Admission.LIVE, tag: int = 7):
    return wiring(SUB, 2, admission, subport=Subport(port_key(PARENT).port, tag))


@pytest.fixture
def site(populated: PlanEnvironment) -> PlanEnvironment:
    populated.database.plug(PARENT, 5)
    populated.do(Update(put={**network(2), **wiring(PARENT, 1)}))
    return populated


def make(site: PlanEnvironment) -> None:
    """Make the pair, and number its ends as the switch does."""
    site.do(Update(put=sub_port()))
    for name, number in ((INNER, 21), (OUTER, 22)):
        port = site.database.ports[name]
        interface = evolve(port.interface, ofport=number)
        site.database.ports[name] = evolve(port, interfaces=(interface,))


def payloads(found, kind):
    stages = (*found.draft.before(), *found.draft.after())
    return [
        operation.payload
        for stage in stages
        for operation in stage.operations
        if isinstance(operation.payload, kind)
    ]


def test_a_pair_is_made_first_and_wired_when_it_has_numbers(site: PlanEnvironment):
    found = site.outline(Update(put=sub_port()))
    assert {add.name: dict(add.options) for add in payloads(found, AddPort)} == {
        INNER: {"peer": OUTER},
        OUTER: {"peer": INNER},
    }
    assert found.draft.waiting == {port_key(SUB): "its device is being made"}
    assert found.live == {}
    make(site)
    found = site.do(Update(put=sub_port()))
    member = found.live[port_key(SUB)]
    assert member.number == 21
    assert member.sub_port == PlannedSubport(parent=5, end=22, tag=7)
    assert rows(site.outline(Update(put=sub_port()))) == []


def test_a_dead_sub_port_needs_no_pair(site: PlanEnvironment):
    found = site.outline(Update(put=sub_port(Admission.DEAD)))
    assert (rows(found), found.draft.waiting) == ([], {})


def test_another_number_of_the_parent_concerns_its_sub_ports(site: PlanEnvironment):
    make(site)
    site.do(Update(put=sub_port()))
    site.database.plug(PARENT, 6)
    found = site.do(Update(put=wiring(PARENT, 1)))
    assert found.live[port_key(SUB)].sub_port == PlannedSubport(parent=6, end=22, tag=7)
    del site.database.ports["tap1"]
    found = site.do(Update(drop={port_key(PARENT)}))
    assert "parent port" in found.draft.waiting[port_key(SUB)]
    assert found.live == {}


def test_a_dropped_sub_port_takes_its_pair_along(site: PlanEnvironment):
    make(site)
    site.do(Update(put=sub_port()))
    found = site.do(Update(drop={port_key(SUB)}))
    assert {gone.name for gone in payloads(found, RemovePort)} == {INNER, OUTER}
    assert not {INNER, OUTER} & site.database.ports.keys()


def test_half_a_pair_is_completed_or_removed(site: PlanEnvironment):
    make(site)
    del site.database.ports[INNER]
    found = site.outline(Update(put=sub_port()))
    assert [add.name for add in payloads(found, AddPort)] == [INNER]
    found = site.outline(Update(put={**network(2), **wiring(PARENT, 1)}, complete=True))
    assert [gone.name for gone in payloads(found, RemovePort)] == [OUTER]


def test_the_tag_is_recorded(site: PlanEnvironment):
    make(site)
    site.do(Update(put=sub_port()))
    found = site.do(Update(put=sub_port(tag=8)))
    assert found.live[port_key(SUB)].sub_port == PlannedSubport(parent=5, end=22, tag=8)
    assert subport_of(site.database.ports[INNER]) == Subport(port_key(PARENT).port, 8)


def test_a_port_of_another_process_or_of_another_sub_port_is_not_touched(site: PlanEnvironment):
    make(site)
    other = wiring(3, 2, subport=Subport(port_key(PARENT).port, 9))  # its names are the same
    found = site.outline(Update(put=other))
    assert isinstance(found.draft.refused[port_key(3)], Conflict)
    assert rows(found) == []
    assert rows(site.outline(Update(drop={port_key(3)}))) == []


def test_another_device_with_the_id_of_a_sub_port_stays_dead(site: PlanEnvironment):
    make(site)
    site.do(Update(put=sub_port()))
    site.database.plug(SUB, 9)
    found = site.do(Update(put=sub_port()))
    assert {member.number for member in found.live.values()} == {21}


def test_a_port_that_is_no_sub_port_any_more_is_wired_by_its_own_device(site: PlanEnvironment):
    make(site)
    site.do(Update(put=sub_port()))
    site.database.plug(SUB, 9)
    found = site.do(Update(put=wiring(SUB, 2)))
    assert found.live[port_key(SUB)].number == 9
    assert {gone.name for gone in payloads(found, RemovePort)} == {INNER, OUTER}
