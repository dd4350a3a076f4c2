"""Named ranges of bits of the switch's registers: the pipeline's own variables."""

from __future__ import annotations

from attrs import field, frozen

from netfw.flows.field import REGISTERS, Bits, MatchField
from netfw.flows.match import Match, matching

__all__ = ["RegisterField"]


@frozen
class RegisterField:
    """Bits *first* to *last* of register *number*, and what they mean."""

    number: int
    first: int
    last: int
    comment: str
    bits: Bits = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.number < len(REGISTERS):
            raise ValueError(f"there are registers 0 to 15, not {self.number}")
        object.__setattr__(self, "bits", Bits(REGISTERS[self.number], self.first, self.last))

    @property
    def mask(self) -> int:
        """The bits of the register that this field takes."""
        return ((1 << self.bits.width) - 1) << self.first

    def is_(self, value: int) -> Match:
        """Match packets whose field has *value*."""
        if not 0 <= value < 1 << self.bits.width:
            raise ValueError(f"{value} does not fit into {self}")
        return matching(REGISTERS[self.number], value << self.first, self.mask)

    def overlaps(self, other: RegisterField) -> bool:
        return self.number == other.number and bool(self.mask & other.mask)

    def __str__(self) -> str:
        return str(self.bits)


BitSource = RegisterField | Bits | MatchField
"""Operand of ``load``, ``move``, ``learn`` and ``ct``."""


def bits_of(source: BitSource) -> Bits:
    """Return the bits of *source*; a whole field is all of its bits."""
    match source:
        case RegisterField():
            return source.bits
        case Bits():
            return source
        case MatchField():
            return Bits(source, 0, source.nxm_width - 1)
