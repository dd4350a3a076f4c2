"""Connection tracking: ``ct`` and the address translation in it."""

from __future__ import annotations

import enum
from functools import lru_cache

from attrs import field, frozen

from netfw.flows.action import NO_TABLE, TABLES, Load, Move, SetField
from netfw.flows.field import Bits
from netfw.flows.register import BitSource, bits_of
from netfw.model.values.address import IpAddress, maybe_address, no_scope

__all__ = ["Ct", "Nat", "Side", "ct", "nat"]

FTP, TFTP = 21, 69
"""Protocols whose related connections the switch can track (application layer gateways)."""
Marking = Load | Move | SetField
"""Actions on a connection when it is committed: set its mark or its label."""


class Side(enum.Enum):
    """End of a connection that is translated."""

    SRC = "src"
    DST = "dst"


@frozen(kw_only=True)
class Nat:
    """Translate one side of a connection; without a side, as decided when it was committed."""

    side: Side | None = None
    first: IpAddress | None = field(default=None, validator=no_scope)
    last: IpAddress | None = field(default=None, validator=no_scope)
    first_port: int | None = None
    last_port: int | None = None
    flags: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        if self.side is None and (self.first or self.first_port or self.flags):
            raise ValueError("say which side to translate: nat(Side.SRC, ...)")
        if self.first is None and (self.last or self.first_port):
            raise ValueError("ports and ranges are translated together with an address")
        if self.flags - {"persistent", "hash", "random"} or {"hash", "random"} <= self.flags:
            raise ValueError(f"persistent, and hash or random, not {sorted(self.flags)}")
        if (
            self.last is not None
            and self.first is not None
            and (self.last.version != self.first.version or int(self.last) <= int(self.first))
        ):
            raise ValueError(f"not a range of addresses: {self.first}-{self.last}")
        if self.last_port is not None and self.last_port <= (self.first_port or 0):
            raise ValueError(f"not a range of ports: {self.first_port}-{self.last_port}")


@frozen(kw_only=True)
class Ct:
    """Send the packet through connection tracking, and on to *table* if there is one."""

    commit: bool = False
    force: bool = False
    table: int = NO_TABLE
    zone: int | Bits = 0
    nat: Nat | None = None
    marks: tuple[Marking, ...] = ()
    alg: int = 0

    def __attrs_post_init__(self) -> None:
        if self.table != NO_TABLE and self.table not in TABLES:
            raise ValueError(f"there are tables 0 to 253, not {self.table}")
        if isinstance(self.zone, Bits) and self.zone.width != 16:
            raise ValueError(f"a zone has 16 bits, {self.zone} has {self.zone.width}")
        if isinstance(self.zone, int) and not 0 <= self.zone <= 0xFFFF:
            raise ValueError(f"a zone has 16 bits, {self.zone} does not fit")
        if not self.commit and (
            self.force or self.marks or self.alg or (self.nat and self.nat.side)
        ):
            raise ValueError("only commit=True forces, marks, and chooses addresses")
        if self.alg not in (0, FTP, TFTP):
            raise ValueError("further connections are followed for FTP (21) and TFTP (69)")
        for mark in self.marks:
            if _target(mark) not in ("ct_mark", "ct_label"):
                raise ValueError(f"a committed connection has ct_mark and ct_label, not {mark}")


def _target(mark: Marking) -> str:
    match mark:
        case Move(target=bits) | Load(bits=bits):
            return bits.field.name
        case SetField(field=where):
            return where.name


def ct(
    *marks: Marking,
    commit: bool = False,
    force: bool = False,
    table: int | None = None,
    zone: int | BitSource = 0,
    nat: Nat | None = None,
    alg: int = 0,
) -> Ct:
    """Track the connection of the packet in *zone*.

    ``commit`` stores it, with what *marks* set.  ``table`` is where the packet continues with its
    connection state known.  A *zone* may be read from a field.
    """
    number = NO_TABLE if table is None else table
    source = zone if isinstance(zone, int) else bits_of(zone)
    if nat is None and not marks:
        return _plain_ct(commit, force, number, source, alg)
    return Ct(commit=commit, force=force, table=number, zone=source, nat=nat, marks=marks, alg=alg)


@lru_cache(1024)
def _plain_ct(commit: bool, force: bool, table: int, zone: int | Bits, alg: int) -> Ct:
    """Return a ``ct`` of which many flows have the same."""
    return Ct(commit=commit, force=force, table=table, zone=zone, alg=alg)


def nat(
    side: Side | None = None,
    first: str | IpAddress | None = None,
    last: str | IpAddress | None = None,
    *,
    ports: tuple[int, int] | int | None = None,
    flags: frozenset[str] | set[str] = frozenset(),
) -> Nat:
    """Translate *side* to *first*, or to an address from *first* to *last*; *ports* likewise."""
    low, high = ports if isinstance(ports, tuple) else (ports, None)
    start, end = maybe_address(first), maybe_address(last)
    return Nat(
        side=side,
        first=start,
        last=None if end == start else end,
        first_port=low,
        last_port=None if high == low else high,
        flags=frozenset(flags),
    )
