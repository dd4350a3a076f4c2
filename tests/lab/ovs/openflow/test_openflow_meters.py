"""Limits of what flows send to the controller, on real switches."""

import logging
import re
import socket
from collections.abc import Iterator
from struct import pack

import pytest

from netfw import flows as of
from netfw.ovs.openflow import FlowChanges, OpenFlow, encode_flows
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
    """The first byte of what flows add to each packet that reaches the controller."""
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
    pattern = r"meter=(\d+) pktps burst bands=\s+type=drop rate=(\d+) burst_size=(\d+)"
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
    assert "not limited, of 2 meters" in record.getMessage()
