"""Records of local VLANs, and what only looks like one."""

from typing import Any

import pytest
from attrs import evolve

from netfw.ovs.ovsdb.operations import AddBridge
from netfw.plan import Update
from netfw_drivers.ovs.common.local_vlans import LocalVlans, record_of
from netfw_drivers.ovs.switch.plan.outline import outline
from tests.unit.backends.ovs.switch.samples import SETTINGS, Database, network, network_key, rows

(SEGMENT,) = network(1, "vxlan", segmentation_id=77)[network_key(1)].segments
_, VALUE = record_of(7, SEGMENT)


def observed(**ids: str):
    database = Database()
    database.add_bridge(AddBridge(name="br-int", external_ids=ids))
    return database.observed()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((f"netfw-vlan-{n}", VALUE) for n in ("5000", "-3", "4095", "0", "07", " 7", "+7", "٧")),
        ("netfw-vlan-7", "a joke"),
        ("netfw-vlan-7", VALUE.upper()),
        ("netfw-vlan-7", VALUE.replace("77", "077")),
    ],
)
def test_a_text_that_is_no_record_is_removed(name, value):
    found = LocalVlans.recorded({name: value, "other": "thing"})
    assert (found.numbers, found.segments, found.garbage) == ({}, {}, {name: value})
    update = Update(put=network(1, "vxlan", segmentation_id=77), complete=True)
    change = outline(update, observed(**{name: value, "other": "thing"}), SETTINGS)
    removed: list[Any] = [operation.payload for operation in change.draft.release]
    assert [(row.keys, row.expect) for row in removed] == [
        ({"external_ids": {name: None}}, {name: value})
    ]
    assert any("external_ids" in row and VALUE in row for row in rows(change))


def test_of_two_numbers_of_one_network_the_lower_is_its_own_and_the_other_not_free_yet():
    ids = {f"netfw-vlan-{number}": VALUE for number in (10, 1, 2)}
    found = LocalVlans.recorded(ids)
    assert [*found.numbers.values()] == [1]
    assert found.garbage.keys() == {"netfw-vlan-2", "netfw-vlan-10"}
    change = outline(Update(put=network(2)), observed(**ids), SETTINGS)
    assert any("netfw-vlan-3" in row for row in rows(change))
    assert change.draft.release == []


def test_while_anything_is_kept_no_unclear_number_gets_free():
    ids = {f"netfw-vlan-{number}": VALUE for number in (1, 2)}
    kept = frozenset({network_key(1)})
    update = Update(put=network(2), keep=kept, complete=True)
    found = outline(update, observed(**ids), SETTINGS)
    assert found.draft.release == []
    assert (
        len(outline(evolve(update, keep=frozenset()), observed(**ids), SETTINGS).draft.release) == 2
    )
