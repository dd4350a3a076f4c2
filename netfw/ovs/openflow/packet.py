"""Packets that the switch hands over, and packets that it is given to send."""

from __future__ import annotations

from struct import Struct

from attrs import field, frozen

from netfw.flows import FIELD, Action, Match
from netfw.flows.port import CONTROLLER, narrow, wide
from netfw.ovs.openflow.encode import decode_match
from netfw.ovs.openflow.encode_action import encode_actions
from netfw.ovs.openflow.messages import Message, Type, message
from netfw.ovs.openflow.nicira import NICIRA

_IN = Struct("!IHBBQHH")
_OUT = Struct("!IIHxxxxxx")
_NO_BUFFER = 0xFFFFFFFF
AS_WITHOUT_PORTS, AS_THEY_ARE = 0, 3
"""How fragments are matched: none has ports, or the first ones have theirs."""


@frozen(kw_only=True)
class PacketIn:
    """A packet that a flow sent to the controller, with what the switch knew about it."""

    table: int
    cookie: int
    match: Match
    data: bytes = field(repr=False)

    @property
    def in_port(self) -> int | None:
        """The port that the packet came in by."""
        found = self.match.get(FIELD["in_port"].name)
        return None if found is None else narrow(found[0])


def read_packet_in(received: Message) -> PacketIn:
    """What a packet-in says.

    :raises ValueError: it is cut short.
    """
    if len(received.data) < 8 + _IN.size:
        raise ValueError(f"a packet-in of {len(received.data)} bytes")
    _, _, _, table, cookie, _, length = _IN.unpack_from(received.data, 8)
    start = 8 + _IN.size - 4
    fields = received.data[start + 4 : start + length]
    return PacketIn(
        table=table,
        cookie=cookie,
        match=decode_match(fields),
        data=received.data[start + length + -length % 8 + 2 :],
    )


def packet_out(
    xid: int, data: bytes, actions: tuple[Action, ...], in_port: int = CONTROLLER
) -> bytes:
    """The message that makes the switch do *actions* with *data*, as if it came in by *in_port*."""
    encoded = encode_actions(actions)
    head = _OUT.pack(_NO_BUFFER, wide(in_port), len(encoded))
    return message(Type.PACKET_OUT, xid, head + encoded + data)


def configure(xid: int, fragments: int, length: int = 0) -> bytes:
    """The message that says how fragments are matched, and how much of a packet is handed over."""
    return message(Type.SET_CONFIG, xid, Struct("!HH").pack(fragments, length))


def want_packets(xid: int, controller_id: int, fragments: int = AS_WITHOUT_PORTS) -> bytes:
    """The messages that make the switch hand over whole packets on this connection."""
    config = configure(xid, fragments, 0xFFFF)
    identity = Struct("!IIxxxxxxH").pack(NICIRA, 20, controller_id)
    return config + message(Type.EXPERIMENTER, xid, identity)
