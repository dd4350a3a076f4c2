"""Actions from the bytes of OpenFlow 1.4: the reverse of ``encode_action``.  Pure.

What an action cannot express is refused, so that encoding what was decoded gives the same bytes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import cast

from netfw.flows import (
    FIELDS,
    Action,
    Bits,
    Conjunction,
    Ct,
    CtClear,
    DecTtl,
    GotoTable,
    Load,
    Meter,
    Move,
    Nat,
    Note,
    Output,
    OutputTo,
    PacketLimit,
    PopVlan,
    PushVlan,
    RateLimit,
    Resubmit,
    SendToController,
    SetField,
    SetQueue,
    Side,
)
from netfw.flows.conntrack import Marking
from netfw.flows.port_number import CONTROLLER, IN_PORT, narrow_port, widen_port
from netfw.ovs.openflow.decode_learn import decode_learn
from netfw.ovs.openflow.nicira import NICIRA, field_of

Limits = Mapping[int, RateLimit]
"""The limits of meters by number: a flow carries the number alone."""

_HEADER = Struct("!HH")
_SHORT = Struct("!H")
_LONG = Struct("!I")
_EXTENSION = Struct("!IH")
_OUTPUT = Struct("!IH")
_LOAD = Struct("!HIQ")
_MOVE = Struct("!HHHII")
_RESUBMIT = Struct("!HB")
_OUTPUT_TO = Struct("!HIH")
_CT = Struct("!HIHBxxxH")
_NAT = Struct("!xxHH")
_CONJUNCTION = Struct("!BBI")
_CONTROLLER = Struct("!HHBx")
_FLAGS = {4: "persistent", 8: "hash", 16: "random"}
_SIDES = {0: None, 1: Side.SRC, 2: Side.DST}
_WIRE = {field.oxm: field for field in FIELDS}


def decode_instructions(data: bytes, limits: Limits) -> tuple[Action, ...]:
    """Return the meter, actions and jump of *data*.

    :raises ValueError: an instruction or action has no counterpart here.
    """
    found: list[Action] = []
    for kind, body in _pieces(data):
        match kind:
            case 6:
                (number,) = _LONG.unpack(body)
                found.append(Meter(number, limits.get(number)))
            case 4:
                found += decode_actions(body[4:], limits)
            case 1:
                found.append(GotoTable(body[0]))
            case _:
                raise ValueError(f"an instruction of type {kind}")
    return tuple(found)


def decode_actions(data: bytes, limits: Limits) -> Iterator[Action]:
    """Yield the actions of a list.

    :raises ValueError: an action has no counterpart here.
    """
    for kind, body in _pieces(data):
        if kind != 0xFFFF:
            if kind not in _PLAIN:
                raise ValueError(f"an action of type {kind}")
            yield _PLAIN[kind](body)
            continue
        vendor, subtype = _EXTENSION.unpack_from(body)
        if vendor != NICIRA or subtype not in _EXTENDED:
            raise ValueError(f"an action {subtype} of {vendor:#x}")
        yield _EXTENDED[subtype](body[_EXTENSION.size :], limits)


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        kind, length = _HEADER.unpack_from(data, position)
        if length < _HEADER.size or position + length > len(data):
            raise ValueError(f"a part of {length} bytes where {len(data) - position} are left")
        yield kind, data[position + _HEADER.size : position + length]
        position += length


def _output(body: bytes) -> Action:
    port, max_len = _OUTPUT.unpack_from(body)
    if widen_port(narrow_port(port)) != port:
        raise ValueError(f"a port {port:#x}")
    return (
        SendToController(max_len) if narrow_port(port) == CONTROLLER else Output(narrow_port(port))
    )


def _set_field(body: bytes) -> Action:
    oxm_class, number, size = Struct("!HBB").unpack_from(body)
    where = _WIRE.get((oxm_class, number >> 1))
    if where is None or number & 1 or size != where.size:
        raise ValueError(f"a field {body[:4].hex()} that is set")
    return SetField(where, int.from_bytes(body[4 : 4 + size], "big"))


def _bits(number: int, ofs_nbits: int) -> Bits:
    first = ofs_nbits >> 6
    return Bits(field_of(number), first, first + (ofs_nbits & 0x3F))


def _load(body: bytes, _: Limits) -> Action:
    ofs_nbits, where, value = _LOAD.unpack_from(body)
    return Load(_bits(where, ofs_nbits), value)


def _move(body: bytes, _: Limits) -> Action:
    width, start, into, source, target = _MOVE.unpack_from(body)
    return Move(
        Bits(field_of(source), start, start + width - 1),
        Bits(field_of(target), into, into + width - 1),
    )


def _resubmit(body: bytes, _: Limits) -> Action:
    port, table = _RESUBMIT.unpack_from(body)
    return Resubmit(table, None if port == IN_PORT else port)


def _output_to(body: bytes, _: Limits) -> Action:
    ofs_nbits, where, max_len = _OUTPUT_TO.unpack_from(body)
    if max_len != 0xFFFF:
        raise ValueError(f"an output of {max_len} bytes")
    return OutputTo(_bits(where, ofs_nbits))


def _conjunction(body: bytes, _: Limits) -> Action:
    clause, clauses, number = _CONJUNCTION.unpack_from(body)
    return Conjunction(number, clause + 1, clauses)


def _controller(body: bytes, _: Limits) -> Action:
    max_len, controller_id, reason = _CONTROLLER.unpack_from(body)
    if reason != 1 or not controller_id:
        raise ValueError(f"a packet to the controller for reason {reason}")
    return SendToController(max_len, controller_id)


def _controller2(body: bytes, limits: Limits) -> Action:
    max_len, controller_id, userdata, position = 0xFFFF, 0, b"", 6
    limit: RateLimit | None = None
    while position < len(body):
        kind, length = _HEADER.unpack_from(body, position)
        value = body[position + 4 : position + length]
        match kind:
            case 0:
                (max_len,) = _SHORT.unpack_from(value)
            case 1:
                (controller_id,) = _SHORT.unpack_from(value)
            case 3:
                userdata = value
            case 5:
                limit = _packet_limit(_LONG.unpack_from(value)[0], limits)
            case _:
                raise ValueError(f"a property {kind} of a packet to the controller")
        position += max(length + -length % 8, 8)
    return SendToController(max_len, controller_id, userdata, cast("PacketLimit | None", limit))


def _packet_limit(meter: int, limits: Limits) -> RateLimit:
    limit = limits.get(meter)
    if not isinstance(limit, PacketLimit):
        raise ValueError(f"meter {meter}, whose limit of packets is not known: pass the limits")
    return limit


def _ct(body: bytes, limits: Limits) -> Action:
    flags, source, zone, table, alg = _CT.unpack_from(body)
    if flags & ~3:
        raise ValueError(f"flags {flags:#x} of a connection")
    inner = body[_CT.size :]
    nat: Nat | None = None
    if inner[:2] == b"\xff\xff" and _EXTENSION.unpack_from(inner, 4) == (NICIRA, 36):
        length = _HEADER.unpack_from(inner)[1]
        nat, inner = _nat(inner[4 + _EXTENSION.size : length]), inner[length:]
    return Ct(
        commit=bool(flags & 1),
        force=bool(flags & 2),
        table=table,
        zone=_bits(source, zone) if source else zone,
        nat=nat,
        marks=cast("tuple[Marking, ...]", tuple(decode_actions(inner, limits))),
        alg=alg,
    )


def _nat(body: bytes) -> Nat:
    flags, present = _NAT.unpack_from(body)
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address | None] = []
    position = _NAT.size
    for four, six in ((1, 4), (2, 8)):
        size = 4 if present & four else 16 if present & six else 0
        raw = body[position : position + size]
        addresses.append(ipaddress.ip_address(raw) if size else None)
        position += size
    ports: list[int | None] = []
    for bit in (16, 32):
        ports.append(_SHORT.unpack_from(body, position)[0] if present & bit else None)
        position += 2 if present & bit else 0
    if flags & 3 == 3:
        raise ValueError("a translation of both sides")
    return Nat(
        side=_SIDES[flags & 3],
        first=addresses[0],
        last=addresses[1],
        first_port=ports[0],
        last_port=ports[1],
        flags=frozenset(name for bit, name in _FLAGS.items() if flags & bit),
    )


_PLAIN: Mapping[int, Callable[[bytes], Action]] = {
    0: _output,
    17: lambda body: PushVlan(_SHORT.unpack_from(body)[0]),
    18: lambda _: PopVlan(),
    21: lambda body: SetQueue(_LONG.unpack_from(body)[0]),
    24: lambda _: DecTtl(),
    25: _set_field,
}
_EXTENDED: Mapping[int, Callable[[bytes, Limits], Action]] = {
    6: _move,
    7: _load,
    8: lambda body, _: Note(body),
    14: _resubmit,
    15: _output_to,
    16: lambda body, _: decode_learn(body, limited=False),
    20: _controller,
    34: _conjunction,
    35: _ct,
    37: _controller2,
    43: lambda *_: CtClear(),
    45: lambda body, _: decode_learn(body, limited=True),
}
