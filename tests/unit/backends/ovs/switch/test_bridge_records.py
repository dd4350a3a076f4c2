"""Records on a bridge's row are guarded by the database: two drivers cannot both have a number."""

from uuid import UUID

import pytest

from netfw.errors import OperationRefused
from netfw.ovs.ovsdb.encode import render
from netfw.ovs.ovsdb.operations import OvsdbTable, SetColumns
from netfw.ovs.ovsdb.values import Bridge, Snapshot, Switch


def snapshot(**ids: str) -> Snapshot:
    bridge = Bridge(uuid=UUID(int=1), name="br-int", external_ids=ids)
    return Snapshot(switch=Switch(uuid=UUID(int=9)), bridges={"br-int": bridge}, ports={})


def record(before: str | None, after: str | None, name: str = "a") -> SetColumns:
    return SetColumns(
        table=OvsdbTable.BRIDGE,
        record="br-int",
        keys={"external_ids": {name: after}},
        expect={name: before},
    )


def test_a_record_is_made_only_where_there_is_none():
    rendered = render([record(None, "x"), record(None, "y", "b")], snapshot(other="thing"))
    waits = [s for s in rendered.statements if s["op"] == "wait" and "external_ids" in s["columns"]]
    assert [wait["rows"] for wait in waits] == [[{"external_ids": ["map", [["other", "thing"]]]}]]
    with pytest.raises(OperationRefused, match="its a is z, not None"):
        render([record(None, "x")], snapshot(a="z"))


def test_a_record_is_removed_only_with_its_expected_value():
    assert render([record("x", None)], snapshot(a="x")).statements
    with pytest.raises(OperationRefused, match="its a is None, not x"):
        render([record("x", None)], snapshot())
