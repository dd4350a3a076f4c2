"""The client on real switches: it connects, notices, comes back, and leaves no threads behind."""

import threading
import time
from pathlib import Path

import pytest

from netfw import flows as of
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.openflow import (
    CookieSpace,
    FlowChanges,
    OpenFlow,
    difference,
    encode_flows,
    messages,
    socket_connection,
)
from netfw.ovs.openflow.messages import OpenFlowMessage, Type
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import error_of
from tests.lab.ovs.openflow.packets import packet_out


def flow(number: int, *actions: of.Action, cookie: int = 0x10) -> of.Flow:
    match = of.register(0, number)
    return of.Flow(table=5, priority=9, match=match, actions=actions, cookie=cookie)


def put(client: OpenFlow, *flows: of.Flow) -> None:
    client.commit(FlowChanges(tuple(encode_flows(flows).values())))


def cookies(client: OpenFlow) -> list[int]:
    return sorted(int.from_bytes(state[:8], "big") for _, state in client.flows())


def openflow_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "openflow" in thread.name]


def test_switch_reports_its_datapath_id(ovs: PrivateOvs, client: OpenFlow) -> None:
    output = ovs.vsctl("get", "Bridge", "br0", "datapath_id").strip().strip('"')
    assert client.datapath_id() == int(output, 16)
    client.barrier()


def test_it_works_over_tcp_too(ovs: PrivateOvs, bridge: str) -> None:
    ovs.vsctl("set-controller", "br0", "ptcp:16633:127.0.0.1")
    client = OpenFlow("tcp:127.0.0.1:16633")
    try:
        client.wait_connected()
        put(client, flow(1, of.normal()))
        assert len(client.flows()) == 1
    finally:
        client.close()


def test_a_bridge_that_does_not_speak_our_version_says_what_to_set(
    ovs: PrivateOvs, bridge: str
) -> None:
    ovs.vsctl("set", "Bridge", "br0", "protocols=OpenFlow10,OpenFlow13")
    client = OpenFlow(bridge)
    try:
        wait_until(lambda: "protocols=OpenFlow10,OpenFlow13,OpenFlow14" in error_of(client))
    finally:
        client.close()


def test_without_a_switch_every_call_fails_at_once_and_says_why(tmp_path: Path) -> None:
    client = OpenFlow(f"unix:{tmp_path}/nothing.mgmt", timeout=60)
    try:
        wait_until(lambda: "No such file" in error_of(client))
        start = time.monotonic()
        for call in (client.barrier, client.flows, lambda: put(client, flow(1))):
            with pytest.raises(BackendUnavailable, match=r"nothing\.mgmt"):
                call()
        assert time.monotonic() - start < 30, "it waited for the time-out"
    finally:
        client.close()


def test_a_restart_of_the_switch_is_noticed_and_survived(ovs, client) -> None:
    states: list[bool] = []
    client.on_state(states.append)
    ovs.stop_switch()
    wait_until(lambda: states == [True, False])
    with pytest.raises(BackendUnavailable):
        client.flows()
    ovs.start_switch()
    wait_until(lambda: states == [True, False, True])
    put(client, flow(1))
    assert 0x10 in cookies(client)


def test_twenty_reconnects_leave_one_thread_and_a_close_leaves_none(bridge, monkeypatch) -> None:
    monkeypatch.setattr(socket_connection, "_LONGEST_LOCAL_PAUSE", 0.02)
    before = len(openflow_threads())
    client = OpenFlow(bridge)
    connection = client.connection
    assert isinstance(connection, socket_connection.SocketConnection)
    states: list[bool] = []
    client.on_state(states.append)
    for turn in range(20):
        wait_until(lambda: client.connected)
        client.barrier()
        connection._hang_up()
        wait_until(lambda turn=turn: states.count(False) == turn + 1)
    wait_until(lambda: client.connected)
    assert len(openflow_threads()) == before + 1
    client.close()
    assert len(openflow_threads()) == before
    assert states.count(False) == 20


def test_two_clients_of_two_switches_do_not_mix(ovs: PrivateOvs, client: OpenFlow) -> None:
    ovs.add_bridge("br9")
    ovs.ofctl("del-flows", ovs.management("br9"))
    other = OpenFlow(ovs.management("br9"))
    try:
        other.wait_connected()
        put(client, flow(1, cookie=1))
        put(other, flow(1, cookie=2), flow(2, cookie=2))
        assert (cookies(client), cookies(other)) == ([1], [2, 2])
        assert client.datapath_id() != other.datapath_id()
    finally:
        other.close()


@pytest.mark.spec("L2-20")
def test_one_refused_flow_among_many_leaves_everything_as_it_was(client: OpenFlow) -> None:
    put(client, flow(0, of.output(1)))
    before = client.flows()
    incomplete = of.learn(20, of.learn_match(of.FIELD["tcp_dst"], 80))
    bad, worse = flow(500, incomplete), flow(700, of.output(1), incomplete)
    many = [bad if n == 500 else worse if n == 700 else flow(n, of.normal()) for n in range(1000)]
    with pytest.raises(OperationRefused) as refused:
        put(client, *many)
    assert refused.value.reasons.keys() == {bad, worse}
    assert refused.value.reasons[bad].startswith("bad action: match inconsistent")
    assert f"{worse}: bad action" in str(refused.value)
    assert client.flows() == before
    put(client, *(item for item in many if item not in (bad, worse)))
    assert len(client.flows()) == 998


@pytest.mark.spec("L2-20")
def test_a_flow_refused_only_at_commit_is_named_too(client: OpenFlow) -> None:
    bad = flow(500, of.Meter(7), of.output(1))
    with pytest.raises(OperationRefused) as refused:
        put(client, *(flow(n, of.normal()) for n in range(500)), bad, flow(501))
    assert refused.value.reasons.keys() == {bad}
    assert "meter" in refused.value.reasons[bad]
    assert client.flows() == []


def test_a_refusal_at_commit_leaves_everything_as_it_was(ovs: PrivateOvs, client: OpenFlow) -> None:
    ovs.vsctl("--", "--id=@t", "create", "Flow_Table", "flow_limit=3", "overflow_policy=refuse",
              "--", "set", "Bridge", "br0", "flow_tables:5=@t")  # fmt: skip
    put(client, flow(1))
    with pytest.raises(OperationRefused, match="table full"):
        put(client, *(flow(number, of.normal()) for number in range(2, 9)))
    assert len(client.flows()) == 1


@pytest.mark.spec("L2-20")
def test_the_difference_leaves_other_owners_and_learnt_flows_alone(
    ovs: PrivateOvs, bridge: str, client: OpenFlow
) -> None:
    space = CookieSpace(0x10, 0xFF)
    learning = of.Flow(
        table=0,
        priority=1,
        match=of.ANYTHING,
        actions=(
            of.learn(20, of.learn_match(of.FIELD["eth_dst"], of.FIELD["eth_src"]), cookie=0x10),
            of.normal(),
        ),
        cookie=0x10,
    )
    ovs.ofctl("add-flow", bridge, "cookie=0x99,table=5,priority=1,actions=drop")
    ovs.ofctl("add-flow", bridge, "cookie=0x10,table=5,priority=2,actions=drop")
    put(client, learning, flow(1, of.output(1)), flow(2))
    packet_out(ovs, "ffffffffffff fa163e000001 9999", "resubmit(,0)")
    ovs.appctl("revalidator/wait")
    assert len(client.flows()) == 6
    wanted = encode_flows([learning, flow(1, of.output(2)), flow(3)])
    changes = difference(wanted, client.flows(), space)
    assert [encoded.flow for encoded in changes.added] == [flow(3)]
    assert [encoded.flow for encoded in changes.changed] == [flow(1, of.output(2))]
    assert len(changes.removed) == 2
    assert set(changes.lines()) == {
        "remove cookie=0x10,table=5,priority=2",
        "remove cookie=0x10,table=5,priority=9,reg0=0x2",
        f"add {flow(3)}",
        f"change {flow(1, of.output(2))}",
    }
    client.commit(changes)
    assert not difference(wanted, client.flows(), space)
    assert cookies(client) == [0x10, 0x10, 0x10, 0x10, 0x99]


def test_removal_spares_a_foreign_flow_with_the_same_match(
    ovs: PrivateOvs, bridge: str, client: OpenFlow
) -> None:
    put(client, flow(1))
    changes = difference({}, client.flows(), CookieSpace(0x10, 0xFF))
    ovs.ofctl("add-flow", bridge, "cookie=0x99,table=5,priority=9,reg0=1,actions=normal")
    client.commit(changes)
    assert cookies(client) == [0x99]


def test_a_changed_cookie_or_action_is_one_modification(client: OpenFlow) -> None:
    put(client, flow(1, of.output(1)))
    for changed in (flow(1, of.output(2)), flow(1, of.output(2), cookie=0x11)):
        changes = difference(encode_flows([changed]), client.flows(), CookieSpace(0x10, 0xF0))
        assert (len(changes.added), len(changes.changed), len(changes.removed)) == (0, 1, 0)
        client.commit(changes)
        assert not difference(encode_flows([changed]), client.flows())


def test_a_listener_that_fails_leaves_the_connection_open(client: OpenFlow, caplog) -> None:
    received: list[OpenFlowMessage] = []

    def fails(message: OpenFlowMessage) -> None:
        received.append(message)
        raise KeyError("defect")

    client.connection.on_message(Type.ERROR, fails)
    client.connection.send(messages.message(Type.BARRIER_REPLY, 0))
    wait_until(lambda: received)
    client.barrier()
    assert "a listener failed" in caplog.text
