from uuid import UUID

import pytest

from netfw.errors import OperationRefused
from netfw.ovs.ovsdb.encode import explain, render
from netfw.ovs.ovsdb.operations import (
    AddBridge,
    AddPort,
    OvsdbTable,
    RemoveBridge,
    RemovePort,
    SetColumns,
    tunnel_port,
)
from netfw.ovs.ovsdb.values import Bridge, Interface, OvsdbPort, Snapshot, Switch


def port(name, bridge="br-int", number=100, **interface):
    return OvsdbPort(
        uuid=UUID(int=number),
        name=name,
        bridge=bridge,
        interfaces=(Interface(uuid=UUID(int=number + 1), name=name, **interface),),
    )


BRIDGE = UUID(int=2)
TAP = port("tap1", external_ids={"iface-id": "a"})
NOW = Snapshot(
    switch=Switch(uuid=UUID(int=1)),
    bridges={"br-int": Bridge(uuid=BRIDGE, name="br-int")},
    ports={"br-int": port("br-int", number=10), "tap1": TAP},
)


def statements(*operations):
    return [(s["op"], s["table"]) for s in render(operations, NOW).statements]


def reasons(*operations):
    with pytest.raises(OperationRefused) as caught:
        render(operations, NOW)
    return caught.value.reasons


def test_many_ports_are_one_mutation_of_their_bridge():
    ports = [AddPort(bridge="br-int", name=f"p{i}", type="internal") for i in range(3)]
    rendered = render(ports, NOW)
    assert rendered.statements[-1]["mutations"] == [
        ["ports", "insert", ["set", [["named-uuid", f"port{i}"] for i in (1, 3, 5)]]]
    ]
    assert rendered.sources[-1] == tuple(ports)


def test_many_removals_are_one_mutation_of_their_bridge():
    rendered = render([RemovePort(name="tap1"), RemovePort(name="gone")], NOW)
    assert [s["op"] for s in rendered.statements] == ["mutate"]


def test_a_port_relies_on_its_bridge_being_the_one_we_know():
    wait, *_ = render([AddPort(bridge="br-int", name="p")], NOW).statements
    assert wait["op"] == "wait"
    assert wait["where"] == [["_uuid", "==", ["uuid", str(BRIDGE)]]]


def test_a_name_may_move_in_one_transaction_when_it_is_given_up_first():
    assert statements(RemovePort(name="tap1"), AddPort(bridge="br-int", name="tap1"))
    assert reasons(AddPort(bridge="br-int", name="tap1"), RemovePort(name="tap1"))


def test_a_taken_name_is_refused_and_says_where_it_is():
    taken, free = AddPort(bridge="br-int", name="tap1"), AddPort(bridge="br-int", name="tap2")
    assert reasons(taken, free) == {taken: "tap1 exists already, on br-int"}


def test_a_name_is_not_given_twice():
    first, second = AddPort(bridge="br-int", name="x"), AddPort(bridge="br-int", name="x", tag=1)
    assert list(reasons(first, second)) == [second]


def test_every_refused_operation_is_named():
    nowhere = AddPort(bridge="br-ex", name="x")
    absent = SetColumns(table=OvsdbTable.PORT, record="nix", values={"tag": 1})
    foreign = RemovePort(name="tap1", expect={"iface-id": "b"})
    assert set(reasons(nowhere, absent, foreign)) == {nowhere, absent, foreign}


def test_a_bridge_and_its_ports_are_made_in_one_transaction():
    kinds = statements(
        AddBridge(name="br-tun", fail_mode="secure"),
        AddPort(bridge="br-tun", name="patch-int", type="patch", options={"peer": "patch-tun"}),
        AddPort(bridge="br-int", name="patch-tun", type="patch", options={"peer": "patch-int"}),
        tunnel_port("br-tun", "vxlan-1", "vxlan", "192.0.2.1", df_default="true"),
    )
    assert kinds.count(("insert", "Port")) == 4
    assert kinds[-1] == ("mutate", "Open_vSwitch")


def test_a_bridge_takes_its_ports_along():
    assert statements(RemovePort(name="tap1"), RemoveBridge("br-int")) == [
        ("mutate", "Open_vSwitch")
    ]
    assert statements(RemoveBridge("br-int"), RemovePort(name="tap1")) == [
        ("mutate", "Open_vSwitch")
    ]


def test_a_bridge_that_is_made_anew_has_its_ports():
    *_, ports, bridges = render(
        [RemoveBridge("br-int"), AddBridge(name="br-int"), AddPort(bridge="br-int", name="x")], NOW
    ).statements
    assert (ports["op"], ports["table"], bridges["table"]) == ("mutate", "Bridge", "Open_vSwitch")
    (where,), (change,) = ports["where"], ports["mutations"]
    assert where == ["_uuid", "==", ["named-uuid", "bridge0"]]
    assert change[:2] == ["ports", "insert"]


def test_the_port_of_the_bridge_itself_is_not_removed_alone():
    assert reasons(RemovePort(name="br-int"))


def test_single_keys_of_a_map_are_changed_without_the_others():
    change = SetColumns(
        table=OvsdbTable.PORT, record="tap1", keys={"other_config": {"a": "1", "b": None}}
    )
    *_, mutate = render([change], NOW).statements
    assert mutate["mutations"] == [
        ["other_config", "delete", ["set", ["a", "b"]]],
        ["other_config", "insert", ["map", [["a", "1"]]]],
    ]


def test_what_is_expected_is_checked_by_the_database_too():
    wait, _ = render([RemovePort(name="tap1", expect={"iface-id": "a"})], NOW).statements
    assert wait["op"] == "wait"
    assert wait["rows"] == [{"external_ids": ["map", [["iface-id", "a"]]]}]


def test_a_refusal_blames_the_operation_whose_statement_failed():
    good, bad = AddPort(bridge="br-int", name="a"), AddPort(bridge="br-int", name="b", tag=5000)
    rendered = render([good, bad], NOW)
    results = [{}, {}, {}, {}, {"error": "constraint violation", "details": "5000 is too much"}]
    assert explain(results, rendered) == {bad: "constraint violation: 5000 is too much"}


@pytest.mark.parametrize("value", ["b", '"b"'])
def test_refusal_at_commit_names_the_operation_with_the_taken_name(value):
    good, bad = AddPort(bridge="br-int", name="a"), AddPort(bridge="br-int", name="b")
    rendered = render([good, bad], NOW)
    details = f'two rows have identical values ({value}) for index on column "name".  First row'
    results = [
        *({} for _ in rendered.statements),
        {"error": "constraint violation", "details": details},
    ]
    assert list(explain(results, rendered)) == [bad]


def test_refusal_without_a_statement_concerns_all_operations():
    both = [AddPort(bridge="br-int", name="a"), AddPort(bridge="br-int", name="b")]
    assert set(explain([], render(both, NOW))) == set(both)
