"""Actions and instructions as the bytes of OpenFlow 1.4 and the switch's extensions to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any

from netfw.flows import (
    Action,
    Bits,
    Conjunction,
    Ct,
    CtClear,
    DecTtl,
    GotoTable,
    Learn,
    Load,
    Meter,
    Move,
    Nat,
    Note,
    Output,
    OutputTo,
    PopVlan,
    PushVlan,
    Resubmit,
    SendToController,
    SetField,
    SetQueue,
    Side,
)
from netfw.flows.port_number import CONTROLLER, IN_PORT, widen_port
from netfw.ovs.openflow.encode_learn import encode_learn
from netfw.ovs.openflow.nicira import NICIRA, header, ofs_nbits, padded

_OUTPUT = Struct("!HHIHxxxxxx")
_SHORT = Struct("!HHHxx")
_PLAIN = Struct("!HHxxxx")
_LONG = Struct("!HHI")
_LOAD = Struct("!HHIHHIQ")
_MOVE = Struct("!HHIHHHHII")
_RESUBMIT = Struct("!HHIHHBxxx")
_OUTPUT_TO = Struct("!HHIHHIHxxxxxx")
_CT = Struct("!HHIHHIHBxxxH")
_NAT = Struct("!HHIHxxHH")
_CONJUNCTION = Struct("!HHIHBBI")
_EXTENSION = Struct("!HHIH")
_CONTROLLER = Struct("!HHIHHHBx")
_PROPERTY = Struct("!HH")
_GOTO = Struct("!HHBxxx")

_NAT_FLAGS = {"persistent": 4, "hash": 8, "random": 16}


def encode_instructions(actions: tuple[Action, ...]) -> bytes:
    """Encode meter, actions and jump as the instructions of a flow."""
    if not actions:
        return b""
    first, last = b"", b""
    if type(actions[0]) is Meter:
        first, actions = _LONG.pack(6, 8, actions[0].id), actions[1:]
    if actions and type(actions[-1]) is GotoTable:
        last, actions = _GOTO.pack(1, 8, actions[-1].table), actions[:-1]
    if not actions:
        return first + last
    body = encode_actions(actions)
    return b"".join((first, _PLAIN.pack(4, 8 + len(body)), body, last))


def encode_actions(actions: Iterable[Action]) -> bytes:
    """Encode a list of actions without an instruction, as packet-outs have it."""
    return b"".join([_ENCODERS[type(action)](action) for action in actions])


def _output(action: Output) -> bytes:
    return _OUTPUT.pack(0, 16, widen_port(action.port), 0)


def _output_to(action: OutputTo) -> bytes:
    target = action.bits
    return _OUTPUT_TO.pack(0xFFFF, 24, NICIRA, 15, ofs_nbits(target), header(target.field), 0xFFFF)


def _controller(action: SendToController) -> bytes:
    if not action.userdata and action.limit is None:
        if not action.controller_id:
            return _OUTPUT.pack(0, 16, widen_port(CONTROLLER), action.max_len)
        return _CONTROLLER.pack(0xFFFF, 16, NICIRA, 20, action.max_len, action.controller_id, 1)
    properties = [] if action.max_len == 0xFFFF else [_SHORT.pack(0, 8, action.max_len)]
    properties += [_SHORT.pack(1, 8, action.controller_id)] if action.controller_id else []
    if action.userdata:
        properties += [padded(_PROPERTY.pack(3, 4 + len(action.userdata)) + action.userdata)]
    properties += [_LONG.pack(5, 8, action.limit.meter)] if action.limit is not None else []
    return _extension(37, b"\0" * 6 + b"".join(properties))


def _resubmit(action: Resubmit) -> bytes:
    port = IN_PORT if action.port is None else action.port
    return _RESUBMIT.pack(0xFFFF, 16, NICIRA, 14, port, action.table)


def _set_field(action: SetField) -> bytes:
    where = action.field
    oxm_class, number = where.oxm
    oxm = Struct("!HBB").pack(oxm_class, number << 1, where.size)
    length = 8 + where.size + (-where.size % 8)
    return padded(_PROPERTY.pack(25, length) + oxm + action.value.to_bytes(where.size, "big"))


def _load(action: Load) -> bytes:
    bits = action.bits
    return _LOAD.pack(
        0xFFFF,
        24,
        NICIRA,
        7,
        bits.first << 6 | bits.last - bits.first,
        header(bits.field),
        action.value,
    )


def _move(action: Move) -> bytes:
    source, target = action.source, action.target
    return _MOVE.pack(
        0xFFFF, 24, NICIRA, 6, source.width, source.first, target.first,
        header(source.field), header(target.field),
    )  # fmt: skip


def _ct(action: Ct) -> bytes:
    inner = _nat(action.nat) if action.nat else b""
    if action.marks:
        inner += encode_actions(action.marks)
    source, zone = _zone(action.zone)
    return (
        _CT.pack(
            0xFFFF, 24 + len(inner), NICIRA, 35, action.commit | action.force << 1,
            source, zone, action.table, action.alg,
        )
        + inner
    )  # fmt: skip


def _zone(zone: int | Bits) -> tuple[int, int]:
    return (0, zone) if isinstance(zone, int) else (header(zone.field), ofs_nbits(zone))


@lru_cache(1024)
def _nat(nat: Nat) -> bytes:
    flags = {Side.SRC: 1, Side.DST: 2, None: 0}[nat.side] + sum(
        map(_NAT_FLAGS.__getitem__, nat.flags)
    )
    present, parts = 0, []
    for value, four, six in ((nat.first, 1, 4), (nat.last, 2, 8)):
        if value is not None:
            present |= four if value.version == 4 else six
            parts.append(value.packed)
    for number, bit in ((nat.first_port, 16), (nat.last_port, 32)):
        if number is not None:
            present |= bit
            parts.append(number.to_bytes(2, "big"))
    body = padded(_NAT.pack(0xFFFF, 0, NICIRA, 36, flags, present) + b"".join(parts))
    return body[:2] + len(body).to_bytes(2, "big") + body[4:]


def _conjunction(action: Conjunction) -> bytes:
    return _CONJUNCTION.pack(0xFFFF, 16, NICIRA, 34, action.clause - 1, action.clauses, action.id)


def _extension(subtype: int, body: bytes) -> bytes:
    length = 10 + len(body)
    return (
        _EXTENSION.pack(0xFFFF, length + -length % 8, NICIRA, subtype) + body + bytes(-length % 8)
    )


_ENCODERS: Mapping[type, Callable[[Any], bytes]] = {
    Output: _output,
    OutputTo: _output_to,
    SendToController: _controller,
    Resubmit: _resubmit,
    SetField: _set_field,
    Load: _load,
    Move: _move,
    PushVlan: lambda action: _SHORT.pack(17, 8, action.ethertype),
    PopVlan: lambda _: _PLAIN.pack(18, 8),
    DecTtl: lambda _: _PLAIN.pack(24, 8),
    SetQueue: lambda action: _LONG.pack(21, 8, action.queue),
    Ct: _ct,
    CtClear: lambda _: _extension(43, b"\0" * 6),
    Learn: encode_learn,
    Conjunction: _conjunction,
    Note: lambda action: _extension(8, action.data),
}
