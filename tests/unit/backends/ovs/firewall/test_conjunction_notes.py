"""What numbers mean, written and read back."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw import flows as of
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.values.ids import AddressGroupId, PortId
from netfw.ovs.openflow import Encoded
from netfw.ovs.openflow.flow_inspection import conjunctions, note_of
from netfw_drivers.ovs.firewall.plan.conjunction_notes import (
    GroupPresent,
    MemberSet,
    Permit,
    PortNote,
    read,
    write,
)
from tests.unit.backends.ovs.firewall.samples import IN, OUT, group_id

ADDRESSES = AddressGroupKey(AddressGroupId(UUID(int=7)))
NOTED = [
    Permit(group_id(1), IN, True),
    Permit(group_id(1), OUT, False, GroupKey(group_id(2))),
    Permit(group_id(1), OUT, True, ADDRESSES),
    GroupPresent(group_id(3)),
    MemberSet(GroupKey(group_id(1))),
    MemberSet(ADDRESSES),
    PortNote(PortKey(PortId(UUID(int=9))), 77),
    frozenset(),
    frozenset(map(group_id, range(1, 20))),
]


@pytest.mark.parametrize("noted", NOTED)
def test_what_a_flow_bears_is_read_back_as_it_was(noted):
    flow = of.Flow(table=82, priority=1, match=of.conj_id(5), actions=(of.Note(write(noted)),))
    data = note_of(Encoded(flow).state)
    assert data is not None
    assert read(data) == noted


def test_no_two_meanings_are_written_alike():
    assert len({write(noted) for noted in NOTED}) == len(NOTED)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_note_are_ignored(data):
    noted = read(data)
    assert noted is None or of.Note(write(noted)).data == data


@pytest.mark.parametrize("noted", NOTED)
def test_notes_that_were_cut_or_changed_mean_nothing_else(noted):
    data = write(noted)
    assert read(data[:-1]) is None or len(data) % 8 == 7
    assert read(b"\x02" + data[1:]) is None
    assert read(data + b"\x01") is None


def test_clauses_are_read_beside_a_note():
    clauses = of.Conjunction(1, 1, 2), of.Conjunction(70000, 3, 3)
    actions = (clauses[0], of.Note(b"x"), clauses[1])
    flow = of.Flow(table=82, priority=70, match=of.register(7, 1), actions=actions)
    state = Encoded(flow).state
    assert conjunctions(state) == clauses
    assert note_of(state) == b"x" + bytes(5)
