"""Ports of a switch: plain numbers, and the reserved ones that stand for something else."""

from __future__ import annotations

__all__ = ["CONTROLLER", "LOCAL"]

IN_PORT, TABLE, NORMAL, FLOOD, ALL, CONTROLLER, LOCAL = range(0xFFF8, 0xFFFF)
"""Back where it came from, through the tables, switched as usual, and so on."""

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


def wide(number: int) -> int:
    """The port as OpenFlow's 32 bits say it."""
    return number | 0xFFFF0000 if number >= 0xFFF8 else number


def narrow(number: int) -> int:
    """The port as 16 bits say it: the reverse of :func:`wide`."""
    return number & 0xFFFF


def check_in_port(number: int) -> None:
    """Refuse what no packet can come from.

    :raises ValueError: says which numbers there are.
    """
    if not 0 < number < FIRST_RESERVED and number not in (LOCAL, CONTROLLER):
        raise ValueError(f"packets come in by ports 1 to 65279, LOCAL or CONTROLLER, not {number}")


def check_out_port(number: int) -> None:
    """Refuse what no packet can go to.

    :raises ValueError: says which numbers there are.
    """
    if not 0 < number < FIRST_RESERVED and number not in RESERVED:
        raise ValueError(f"packets go out by ports 1 to 65279 or a reserved one, not {number}")
