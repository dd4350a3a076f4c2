"""What all of the switch's extended actions have in common."""

from __future__ import annotations

from functools import lru_cache

from netfw.flows import (
    FIELDS,
    IN_PORT_WIDE,
    ND_OPTIONS_TYPE,
    ND_RESERVED,
    VLAN_TCI,
    Bits,
    MatchField,
)

NICIRA = 0x00002320
"""The vendor under whose number the switch extends OpenFlow."""


@lru_cache(256)
def header(where: MatchField) -> int:
    """Return the number of a field in ``load``, ``move`` and ``learn``."""
    nxm_class, number = where.nxm
    return nxm_class << 16 | number << 9 | where.nxm_size


_FIELD_OF = {
    header(where): where
    for where in (*FIELDS, VLAN_TCI, ND_RESERVED, ND_OPTIONS_TYPE, IN_PORT_WIDE)
}


def field_of(number: int) -> MatchField:
    """Return the field that :func:`header` gives *number*.

    :raises ValueError: there is none.
    """
    if number not in _FIELD_OF:
        raise ValueError(f"there is no field {number:#010x} here")
    return _FIELD_OF[number]


def ofs_nbits(bits: Bits) -> int:
    """Return offset and width as one number of 16 bits."""
    return bits.first << 6 | bits.width - 1


def padded(data: bytes) -> bytes:
    """Pad *data* to a multiple of eight bytes."""
    return data + bytes(-len(data) % 8)
