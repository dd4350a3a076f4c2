"""Limits of what passes flows, and of what they send to the controller, on real switches."""

import logging
import re
import socket
from collections.abc import Iterator
from struct import pack

import pytest

from netfw import flows as of
from netfw.ovs.openflow import Drift, FlowChanges, FlowMirror, OpenFlow, encode_flows
from netfw.ovs.openflow.flow_cache import group_of
from netfw.ovs.openflow.messages import Type
from netfw.ovs.openflow.packets import PacketConnection, PacketIn
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import HELLO, received
from tests.lab.ovs.openflow.packets import packet_out

CONTROLLER = 77
FRAME = "020000000002 020000000001 88b5"


@pytest.fixture
def packets(bridge: str) -> Iterator[list[bytes]]:
    """Yield the userdata that flows add to each packet that reaches the controller."""
    found: list[bytes] = []

    def listen(packet: PacketIn) -> None:
        found.append(packet.userdata)

    connection = PacketConnection(bridge, CONTROLLER, listen)
    yield found
    connection.close()


def put(client: OpenFlow, *limits: of.PacketLimit) -> None:
    """Make table 1 and up send packets to the controller, each within one of *limits*."""
    flows = [
        of.Flow(
            table=table,
            priority=1,
            match=of.ANYTHING,
            actions=(
                of.controller(controller_id=CONTROLLER, userdata=bytes([table]), limit=limit),
            ),
        )
        for table, limit in enumerate(limits, 1)
    ]
    client.commit(FlowChanges(tuple(encode_flows(flows).values())))


def meters(ovs: PrivateOvs, bridge: str) -> dict[int, tuple[int, int]]:
    """Return rate and burst of each meter."""
    text = ovs.ofctl("-O", "OpenFlow14", "dump-meters", bridge)
    pattern = r"meter=(\d+) (?:pktps|kbps) burst bands=\s+type=drop rate=(\d+) burst_size=(\d+)"
    return {int(id): (int(rate), int(burst)) for id, rate, burst in re.findall(pattern, text)}


def test_packets_beyond_the_limit_are_dropped_and_those_of_other_meters_are_not(
    ovs: PrivateOvs, client: OpenFlow, packets: list[bytes]
) -> None:
    put(client, of.PacketLimit(5, 1, 2), of.PacketLimit(6, 1000, 1000))
    many = ",".join(["resubmit(,1)"] * 400)

    def flood() -> bool:
        packet_out(ovs, FRAME, f"{many},resubmit(,2)")
        return packets.count(b"\2") >= 5

    wait_until(flood)
    assert 0 < packets.count(b"\1") < 400, "of at least 2,000"


def test_a_meter_that_is_present_is_changed(ovs: PrivateOvs, bridge: str, client: OpenFlow) -> None:
    put(client, of.PacketLimit(5, 10, 20))
    assert meters(ovs, bridge) == {5: (10, 20)}
    put(client, of.PacketLimit(5, 11, 22))
    assert meters(ovs, bridge) == {5: (11, 22)}
    again = OpenFlow(bridge)
    again.wait_connected()
    put(again, of.PacketLimit(5, 12, 24), of.PacketLimit(0x2FEFF, 1, 1))
    again.close()
    assert meters(ovs, bridge) == {5: (12, 24), 0x2FEFF: (1, 1)}


def test_a_switch_that_was_restarted_gets_its_meters_again(
    ovs: PrivateOvs, bridge: str, client: OpenFlow
) -> None:
    put(client, of.PacketLimit(5, 10, 20))
    ovs.stop_switch()
    wait_until(lambda: not client.connected)
    ovs.start_switch()
    client.wait_connected(30)
    put(client, of.PacketLimit(5, 10, 20))
    assert meters(ovs, bridge) == {5: (10, 20)}


def _without_meters(sock: socket.socket) -> None:
    """Answer as a switch that has no meters, and accepts all else."""
    sock.sendall(HELLO)
    while True:
        kind, xid, body = received(sock)
        if kind == Type.METER_MOD:
            sock.sendall(pack("!BBHIHH", 5, Type.ERROR, 12, xid, 12, 0))
        elif kind == Type.BARRIER_REQUEST:
            sock.sendall(pack("!BBHI", 5, Type.BARRIER_REPLY, 8, xid))
        elif kind == Type.BUNDLE_CONTROL:
            reply = int.from_bytes(body[4:6]) + 1
            sock.sendall(pack("!BBHIIHH", 5, kind, 16, xid, 1, reply, 3))


def test_without_meters_flows_are_added_and_the_log_says_so(connected_to, caplog) -> None:
    _, client = connected_to(_without_meters)
    client.wait_connected()
    with caplog.at_level(logging.WARNING):
        put(client, of.PacketLimit(5, 10, 20), of.PacketLimit(6, 10, 20))
        put(client, of.PacketLimit(5, 10, 20))
    (record,) = caplog.records
    assert "not in force, of 2 meters" in record.getMessage()


def limited(limit: of.RateLimit) -> of.Flow:
    """Return a flow whose cookie tells its limit, as that of an extension does."""
    return of.Flow(
        table=1,
        priority=1,
        match=of.in_port(limit.meter),
        actions=(of.limited(limit), of.goto(2)),
        cookie=limit.rate,
    )


@pytest.fixture
def drifts() -> list[Drift]:
    return []


@pytest.fixture
def mirror(client: OpenFlow, drifts: list[Drift]) -> FlowMirror:
    found = FlowMirror(client, drifts.append)
    found.wait_current()
    return found


def audit(mirror: FlowMirror) -> None:
    mirror.audit()
    mirror.wait_current()


def test_a_meter_of_passing_packets_comes_changes_and_goes_with_its_flows(
    ovs: PrivateOvs, bridge: str, mirror: FlowMirror
) -> None:
    mirror.converge({1: group_of(limited(of.BitLimit(5, 1000, 300)))})
    assert meters(ovs, bridge) == {5: (1000, 300)}
    assert "kbps" in ovs.ofctl("-O", "OpenFlow14", "dump-meters", bridge)
    mirror.converge({1: group_of(limited(of.BitLimit(5, 2000, 600)))})
    assert meters(ovs, bridge) == {5: (2000, 600)}
    mirror.converge({2: group_of(limited(of.PacketLimit(6, 1000, 1000)))})
    mirror.converge({}, drop=[1])
    assert meters(ovs, bridge) == {6: (1000, 1000)}


def test_a_meter_that_another_flow_names_stays(
    ovs: PrivateOvs, bridge: str, mirror: FlowMirror
) -> None:
    limit = of.PacketLimit(5, 10, 20)
    others = of.Flow(table=2, priority=1, match=of.ANYTHING, actions=(of.limited(limit),))
    mirror.converge({1: group_of(limited(limit)), 2: group_of(others)})
    mirror.converge({}, drop=[1])
    assert meters(ovs, bridge) == {5: (10, 20)}


def test_a_deleted_meter_returns_with_the_flows_that_the_switch_deleted_with_it(
    ovs: PrivateOvs, bridge: str, mirror: FlowMirror, drifts: list[Drift]
) -> None:
    groups = {1: group_of(limited(of.BitLimit(5, 1000, 300)))}
    mirror.converge(groups)
    ovs.ofctl("-O", "OpenFlow14", "del-meter", bridge, "meter=5")
    wait_until(lambda: any(1 in drift.owners for drift in drifts))
    mirror.converge(groups)
    assert meters(ovs, bridge) == {5: (1000, 300)}
    assert "meter:5" in ovs.ofctl("-O", "OpenFlow14", "dump-flows", bridge)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["changed", "deleted"])
def test_an_audit_finds_meters_that_another_client_changed_or_deleted(
    ovs: PrivateOvs, bridge: str, mirror: FlowMirror, drifts: list[Drift], *, is_deleted: bool
) -> None:
    to_controller = of.controller(userdata=b"x", limit=of.PacketLimit(5, 10, 20))
    flow = of.Flow(table=1, priority=1, match=of.ANYTHING, actions=(to_controller,))
    groups = {1: group_of(flow), 2: group_of(limited(of.BitLimit(6, 1000, 300)))}
    mirror.converge(groups)
    other = "meter=5,pktps,burst,band=type=drop,rate=7,burst_size=7"
    if is_deleted:
        ovs.ofctl("-O", "OpenFlow14", "del-meter", bridge, "meter=5")
    else:
        ovs.ofctl("-O", "OpenFlow14", "mod-meter", bridge, other)
    audit(mirror)
    wait_until(lambda: drifts)
    assert [drift.owners for drift in drifts] == [{1}]
    assert len(mirror.converge(groups).changes) == 1
    assert meters(ovs, bridge) == {5: (10, 20), 6: (1000, 300)}
    audit(mirror)
    assert not mirror.plan(groups), "all is well again"
