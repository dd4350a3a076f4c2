"""What all of the switch's extended actions have in common."""

from __future__ import annotations

from functools import lru_cache

from netfw.flows import Bits, MatchField

NICIRA = 0x00002320
"""The vendor under whose number the switch extends OpenFlow."""


@lru_cache(256)
def header(where: MatchField) -> int:
    """The number of a field as ``load``, ``move`` and ``learn`` carry it."""
    nxm_class, number = where.nxm
    return nxm_class << 16 | number << 9 | where.nxm_size


def ofs_nbits(bits: Bits) -> int:
    """Offset and width in one number of 16 bits."""
    return bits.first << 6 | bits.width - 1


def padded(data: bytes) -> bytes:
    """*data*, filled up to a multiple of eight bytes."""
    return data + bytes(-len(data) % 8)
