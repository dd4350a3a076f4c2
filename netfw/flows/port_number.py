"""Ports of a switch: plain numbers, and the reserved ones."""

from __future__ import annotations

__all__ = ["CONTROLLER", "LOCAL"]

IN_PORT, TABLE, NORMAL, FLOOD, ALL, CONTROLLER, LOCAL = range(0xFFF8, 0xFFFF)
"""Reserved ports: back by the ingress port, through the tables, normal switching, and so on."""

RESERVED = {
    IN_PORT: "IN_PORT",
    TABLE: "TABLE",
    NORMAL: "NORMAL",
    FLOOD: "FLOOD",
    ALL: "ALL",
    CONTROLLER: "CONTROLLER",
    LOCAL: "LOCAL",
}
FIRST_RESERVED = 0xFF00


def widen_port(number: int) -> int:
    """Convert a port to OpenFlow's 32 bits."""
    return number | 0xFFFF0000 if number >= 0xFFF8 else number


def narrow_port(number: int) -> int:
    """Convert a port to 16 bits: the reverse of :func:`widen_port`."""
    return number & 0xFFFF


def check_in_port(number: int) -> None:
    """Refuse a port that no packet can come from.

    :raises ValueError: the message lists the valid numbers.
    """
    if not 0 < number < FIRST_RESERVED and number not in (LOCAL, CONTROLLER):
        raise ValueError(f"packets come in by ports 1 to 65279, LOCAL or CONTROLLER, not {number}")


def check_out_port(number: int) -> None:
    """Refuse a port that no packet can go to.

    :raises ValueError: the message lists the valid numbers.
    """
    if not 0 < number < FIRST_RESERVED and number not in RESERVED:
        raise ValueError(f"packets go out by ports 1 to 65279 or a reserved one, not {number}")
