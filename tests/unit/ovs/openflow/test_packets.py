"""Packets to and from the controller, as bytes."""

from __future__ import annotations

from struct import pack

import pytest

from netfw.ovs.openflow.messages import OpenFlowMessage, Type
from netfw.ovs.openflow.nicira import NICIRA
from netfw.ovs.openflow.packets import PacketIn, packet_out, read_packet_in


def prop(kind: int, value: bytes) -> bytes:
    data = pack("!HH", kind, 4 + len(value)) + value
    return data + bytes(-len(data) % 8)


def message(*properties: bytes, subtype: int = 30) -> OpenFlowMessage:
    body = pack("!II", NICIRA, subtype) + b"".join(properties)
    data = pack("!BBHI", 5, Type.EXPERIMENTER, 8 + len(body), 0) + body
    return OpenFlowMessage(5, Type.EXPERIMENTER, 0, data)


PACKET = prop(0, b"a frame")
USERDATA = prop(7, b"of a flow")
OXM_PORT = pack("!HBBI", 0x8000, 0, 4, 7)
NXM_PORT = pack("!HBBH", 0, 0, 2, 7)
REGISTER = pack("!HBBI", 0x8001, 2, 4, 9)


@pytest.mark.spec("DHCP-81")
@pytest.mark.parametrize("fields", [OXM_PORT, NXM_PORT, REGISTER + OXM_PORT])
def test_a_packet_comes_with_its_port_and_the_bytes_of_its_flow(fields: bytes) -> None:
    read = read_packet_in(message(PACKET, prop(3, b"\1"), prop(6, fields), USERDATA))
    assert read == PacketIn(7, b"a frame", b"of a flow")


@pytest.mark.spec("FW-14")
def test_a_packet_comes_with_the_registers_and_the_state_of_its_connection() -> None:
    registers = pack("!HBBI", 1, 7 << 1, 4, 0x10005) + pack("!HBBI", 1, 5 << 1, 4, 3)
    masked = pack("!HBBII", 1, 6 << 1 | 1, 8, 9, 9)
    state = pack("!HBBI", 1, 105 << 1, 4, 0x21)
    fields = prop(6, registers + masked + state + OXM_PORT)
    read = read_packet_in(message(PACKET, fields, USERDATA))
    assert read == PacketIn(7, b"a frame", b"of a flow", {7: 0x10005, 5: 3}, 0x21)


@pytest.mark.parametrize(
    "received",
    [
        message(PACKET, USERDATA),
        message(prop(6, OXM_PORT), USERDATA),
        message(PACKET, prop(6, OXM_PORT), subtype=29),
        message(b"\0\0\0\0"),
        OpenFlowMessage(5, Type.EXPERIMENTER, 0, bytes(9)),
    ],
    ids=["no port", "no packet", "another message", "a property without end", "short"],
)
def test_other_messages_have_no_packet(received: OpenFlowMessage) -> None:
    assert read_packet_in(received) is None


def test_a_message_that_is_cut_short_is_none_or_a_part() -> None:
    whole = message(PACKET, prop(6, OXM_PORT), USERDATA)
    for length in range(len(whole.data)):
        read_packet_in(whole._replace(data=whole.data[:length]))


def test_a_packet_leaves_by_the_named_port() -> None:
    data = packet_out(3, 7, b"a frame")
    assert data[:8] == pack("!BBHI", 5, Type.PACKET_OUT, len(data), 3)
    assert data[8:24] == pack("!IIH6x", 0xFFFFFFFF, 0xFFFFFFFD, 16)
    assert data[24:] == pack("!HHIH6x", 0, 16, 7, 0) + b"a frame"
