"""Actions of a flow, as values.

Flows are written with the functions; the classes are what they return.  Values that the switch
would convert are converted here in the same way, or refused.
"""

from __future__ import annotations

from attrs import field, frozen

from netfw.flows.field import FIELD, Bits, MatchField
from netfw.flows.match_builders import mac_number
from netfw.flows.port_number import (
    ALL,
    CONTROLLER,
    FLOOD,
    IN_PORT,
    LOCAL,
    NORMAL,
    TABLE,
    check_in_port,
    check_out_port,
)
from netfw.flows.register import BitSource, bits_of
from netfw.model.values.address import IpAddress, as_address, unscoped

__all__ = [
    "BitLimit",
    "Conjunction",
    "CtClear",
    "DecTtl",
    "GotoTable",
    "Load",
    "Meter",
    "Move",
    "Note",
    "Output",
    "OutputTo",
    "PacketLimit",
    "PopVlan",
    "PushVlan",
    "RateLimit",
    "Resubmit",
    "SendToController",
    "SetField",
    "SetQueue",
    "back",
    "controller",
    "drop",
    "flood",
    "limited",
    "load",
    "move",
    "normal",
    "output",
    "set_field",
    "set_tunnel",
    "set_vlan",
    "to_all",
    "to_local",
]

NO_TABLE = 0xFF
TABLES = range(254)
"""Table numbers; the switch reserves the last one."""


@frozen
class Output:
    """Send the packet out by a port, or to the destination of a reserved port."""

    port: int

    def __attrs_post_init__(self) -> None:
        check_out_port(self.port)
        if self.port in (CONTROLLER, TABLE):
            raise ValueError("use controller(), or resubmit() in place of the port TABLE")


@frozen
class OutputTo:
    """Send the packet out by the port whose number these bits hold."""

    bits: Bits


@frozen
class PacketLimit:
    """At most *rate* packets a second, and *burst* at once, of all flows that name *meter*."""

    meter: int
    rate: int
    burst: int

    def __attrs_post_init__(self) -> None:
        _check_limit(self.meter, self.rate, self.burst)


@frozen
class BitLimit:
    """At most *rate* kilobits a second, and *burst* kilobits at once, of all flows that name
    *meter*."""

    meter: int
    rate: int
    burst: int

    def __attrs_post_init__(self) -> None:
        _check_limit(self.meter, self.rate, self.burst)


RateLimit = PacketLimit | BitLimit
"""A meter and its limit."""


@frozen
class SendToController:
    """Send the packet, or its first bytes, to the controller."""

    max_len: int = 0xFFFF
    controller_id: int = 0
    userdata: bytes = b""
    limit: PacketLimit | None = None
    """The switch drops what exceeds it, and continues with the other actions."""

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.max_len <= 0xFFFF or not 0 <= self.controller_id <= 0xFFFF:
            raise ValueError("max_len and controller_id have 16 bits")


@frozen
class Resubmit:
    """Look the packet up again in *table*, then continue here; as if it came in by *port*."""

    table: int
    port: int | None = None

    def __attrs_post_init__(self) -> None:
        _check_table(self.table)
        if self.port is not None:
            check_in_port(self.port)


@frozen
class GotoTable:
    """Continue in a later table; the last action of a flow."""

    table: int

    def __attrs_post_init__(self) -> None:
        _check_table(self.table)


@frozen
class SetField:
    """Set a whole field."""

    field: MatchField
    value: int

    def __attrs_post_init__(self) -> None:
        if not self.field.settable or self.field.index < 0:
            raise ValueError(f"{self.field.name} cannot be set")
        if self.field.name == "in_port":
            raise ValueError("in_port is set by load(), not by set_field()")
        if not 0 <= self.value <= self.field.highest:
            raise ValueError(f"{self.value:#x} does not fit into {self.field.name}")


@frozen
class Load:
    """Write a number into bits."""

    bits: Bits
    value: int

    def __attrs_post_init__(self) -> None:
        width = self.bits.width
        if width > 64:
            raise ValueError(f"load writes up to 64 bits at a time, not all of {self.bits}")
        if not 0 <= self.value < 1 << width:
            raise ValueError(f"{self.value:#x} does not fit into {self.bits}")
        if not self.bits.field.settable:
            raise ValueError(f"{self.bits.field.name} cannot be set")


@frozen
class Move:
    """Copy bits."""

    source: Bits
    target: Bits

    def __attrs_post_init__(self) -> None:
        if self.source.width != self.target.width:
            raise ValueError(f"{self.source} and {self.target} are not of the same width")
        if not self.target.field.settable:
            raise ValueError(f"{self.target.field.name} cannot be set")


@frozen
class PushVlan:
    """Add a VLAN tag; set its id with :func:`set_vlan`."""

    ethertype: int = 0x8100

    def __attrs_post_init__(self) -> None:
        if self.ethertype not in (0x8100, 0x88A8):
            raise ValueError(f"a VLAN tag is of type 0x8100 or 0x88a8, not {self.ethertype:#x}")


@frozen
class PopVlan:
    """Remove the outermost VLAN tag."""


@frozen
class DecTtl:
    """Decrement the time to live."""


@frozen
class CtClear:
    """Clear the connection state of the packet."""


@frozen
class Conjunction:
    """The packet fulfils dimension *clause* of *clauses* of conjunction *id*."""

    id: int
    clause: int
    clauses: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.id < 1 << 32:
            raise ValueError(f"a conjunction's id has 32 bits, {self.id} does not fit")
        if not 2 <= self.clauses <= 64 or not 1 <= self.clause <= self.clauses:
            raise ValueError(f"no such clause of 2 to 64: {self.clause}/{self.clauses}")


def _padded(data: bytes) -> bytes:
    return data + bytes((6 - len(data)) % 8)


@frozen
class Note:
    """Bytes that are only stored with the flow; the switch pads them to lengths of 6, 14, …"""

    data: bytes = field(converter=_padded)


@frozen
class Meter:
    """Let the packet through as far as the meter allows; the first action of a flow.

    A packet beyond the limit is dropped with everything that the switch would still do with it.
    """

    id: int
    limit: RateLimit | None = None
    """Written before the flow; ``None``: the meter exists."""

    def __attrs_post_init__(self) -> None:
        _check_meter(self.id)
        if self.limit is not None and self.limit.meter != self.id:
            raise ValueError(f"meter {self.id} has the limit of meter {self.limit.meter}")


@frozen
class SetQueue:
    """Put the packet into a queue of the port it leaves by."""

    queue: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.queue < 0xFFFFFFFF:
            raise ValueError(f"not the number of a queue: {self.queue}")


def _check_table(number: int) -> None:
    if number not in TABLES:
        raise ValueError(f"there are tables 0 to 253, not {number}")


def _check_meter(number: int) -> None:
    if not 0 < number < 0xFFFF0000:
        raise ValueError(f"not the number of a meter: {number}")


def _check_limit(meter: int, rate: int, burst: int) -> None:
    _check_meter(meter)
    if not 0 < rate < 1 << 32 or not 0 < burst < 1 << 32:
        raise ValueError(f"rate and burst are from 1 to 2^32 - 1: {rate}, {burst}")


def drop() -> tuple[()]:
    """Drop the packet: no actions.  Written alone."""
    return ()


def output(port: int | BitSource) -> Output | OutputTo:
    """Send out by port *port*, or by the port whose number a field holds."""
    return Output(port) if isinstance(port, int) else OutputTo(bits_of(port))


def normal() -> Output:
    return Output(NORMAL)


def flood() -> Output:
    return Output(FLOOD)


def to_all() -> Output:
    return Output(ALL)


def to_local() -> Output:
    return Output(LOCAL)


def back() -> Output:
    """Send out by the port the packet came in by."""
    return Output(IN_PORT)


def controller(
    max_len: int = 0xFFFF,
    *,
    controller_id: int = 0,
    userdata: bytes = b"",
    limit: PacketLimit | None = None,
) -> SendToController:
    return SendToController(max_len, controller_id, userdata, limit)


def limited(limit: RateLimit) -> Meter:
    """Let the packet through as far as *limit* allows."""
    return Meter(limit.meter, limit)


def load(where: BitSource, value: int) -> Load:
    return Load(bits_of(where), value)


def move(source: BitSource, target: BitSource) -> Move:
    return Move(bits_of(source), bits_of(target))


def set_field(name: str, value: int | str | IpAddress) -> SetField:
    """Set the field *name*; MAC and IP addresses may be text."""
    where = FIELD[name]
    if isinstance(value, str):
        number = mac_number(value) if where.width == 48 else int(as_address(value))
    else:
        number = value if isinstance(value, int) else int(unscoped(value))
    return SetField(where, number)


def set_vlan(vid: int) -> SetField:
    """Set the id of the packet's VLAN tag, which must be there."""
    if not 0 <= vid <= 0xFFF:
        raise ValueError(f"a VLAN id has 12 bits, {vid} does not fit")
    return SetField(FIELD["vlan"], 0x1000 | vid)


def set_tunnel(number: int) -> SetField:
    """Set the id that the packet carries through a tunnel."""
    return SetField(FIELD["tun_id"], number)
