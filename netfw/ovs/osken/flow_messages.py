"""Flows as os-ken's ``OFPFlowMod`` and ``OFPFlowStats``, and back, by their bytes."""

from __future__ import annotations

from struct import Struct
from typing import Any

from os_ken.ofproto import ofproto_v1_4 as ofp
from os_ken.ofproto import ofproto_v1_4_parser as parser

from netfw.flows import Flow
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.decode_action import Limits
from netfw.ovs.openflow.decode_flow import NO_LIMITS, decode_flow
from netfw.ovs.openflow.encode import Encoded

_KEY = Struct("!BH")
_STATE = Struct("!QHH")


def make_flow_mod(datapath: Any, flow: Flow) -> parser.OFPFlowMod:
    """Return the message that adds *flow*, or puts it in the place of one with the same match.

    The limits of its meters are not in it: ``OpenFlow.commit`` writes them, or ``OFPMeterMod``.
    """
    encoded = Encoded(flow)
    data = messages.flow_add(0, encoded.key, encoded.state)
    found = parser.OFPFlowMod.parser(datapath, *messages.HEADER.unpack_from(data), data)
    found.xid = None
    return found


def flow_of(message: parser.OFPFlowMod | parser.OFPFlowStats, limits: Limits = NO_LIMITS) -> Flow:
    """Return the flow that *message* adds, or that it shows with its counters.

    A message carries the numbers of meters; *limits* has their limits, as ``OpenFlow.meters``
    returns them.

    :raises ValueError: the message says what a ``Flow`` cannot: another command than
        ``OFPFC_ADD``, flags, an importance, a buffer, or an action that netfw does not have.
    """
    _refuse(message)
    framed = bytearray()
    length = message.match.serialize(framed, 0)
    fields = bytes(framed[4 : length - -_unpadded(framed) % 8])
    instructions = bytearray()
    for instruction in message.instructions or ():
        instruction.serialize(instructions, len(instructions))
    key = _KEY.pack(message.table_id, message.priority) + fields
    times = message.idle_timeout, message.hard_timeout
    return decode_flow(key, _STATE.pack(message.cookie, *times) + bytes(instructions), limits)


def _unpadded(framed: bytearray) -> int:
    return int.from_bytes(framed[2:4], "big")


def _refuse(message: parser.OFPFlowMod | parser.OFPFlowStats) -> None:
    if not isinstance(message, parser.OFPFlowMod | parser.OFPFlowStats):
        kind = f"{type(message).__module__}.{type(message).__name__}"
        raise ValueError(f"cannot be a Flow: it is {kind}, no flow of OpenFlow 1.4")
    wrong = {"flags": message.flags, "importance": message.importance}
    if isinstance(message, parser.OFPFlowMod):
        wrong["command"] = message.command
        wrong["cookie_mask"] = message.cookie_mask
        wrong["buffer_id"] = message.buffer_id != ofp.OFP_NO_BUFFER and message.buffer_id
    for name, value in wrong.items():
        if value:
            raise ValueError(f"cannot be a Flow: it has {name} {value}")
