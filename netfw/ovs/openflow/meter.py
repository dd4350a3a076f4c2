"""Meters: limits that flows refer to by number."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from attrs import frozen

from netfw.ovs.openflow.messages import METER_CONFIG, Type, message, multipart

ADD, MODIFY, DELETE = range(3)
_MOD = Struct("!HHI")
_BAND = Struct("!HHIIxxxx")
_ALL = 0xFFFFFFFF
_DROP = 1
_KBPS, _PKTPS, _BURST = 1, 2, 4


@frozen(kw_only=True)
class MeterLimit:
    """Drop what exceeds *rate* kilobits, or packets, per second; *burst* in the same unit."""

    id: int
    rate: int
    burst: int = 0
    packets: bool = False

    def __attrs_post_init__(self) -> None:
        if not 0 < self.id < 0xFFFF0000:
            raise ValueError(f"not the number of a meter: {self.id}")
        if not 0 < self.rate <= _ALL or not 0 <= self.burst <= _ALL:
            raise ValueError(f"not a rate or burst: {self.rate}, {self.burst}")


def meter_mod(xid: int, command: int, limit: MeterLimit) -> bytes:
    flags = (_PKTPS if limit.packets else _KBPS) | (_BURST if limit.burst else 0)
    band = _BAND.pack(_DROP, _BAND.size, limit.rate, limit.burst)
    return message(Type.METER_MOD, xid, _MOD.pack(command, flags, limit.id) + band)


def meter_delete(xid: int, number: int) -> bytes:
    return message(Type.METER_MOD, xid, _MOD.pack(DELETE, 0, number))


def meter_dump(xid: int) -> bytes:
    return multipart(xid, METER_CONFIG, Struct("!Ixxxx").pack(_ALL))


def read_meters(part: bytes) -> Iterator[MeterLimit]:
    """The meters in one part of a dump; those with other bands than ours are left out."""
    position = 16
    while position + _MOD.size <= len(part):
        length, flags, number = _MOD.unpack_from(part, position)
        if length < _MOD.size:
            raise ValueError(f"a meter of {length} bytes")
        if length == _MOD.size + _BAND.size:
            kind, _, rate, burst = _BAND.unpack_from(part, position + _MOD.size)
            if kind == _DROP:
                yield MeterLimit(id=number, rate=rate, burst=burst, packets=bool(flags & _PKTPS))
        position += length
