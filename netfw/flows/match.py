"""Match of a flow: ``in_port(5) & eth_src(mac) & vlan(7)``.

A match is a set of terms, each a field's index, a value and a mask, kept in the order of the
wire.  Values are validated when they are made, so that a match equals what the switch will dump:
bits outside of a mask and empty masks are refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from attrs import field, frozen

from netfw.flows.field import FIELD, FIELDS, MatchField

__all__ = ["ANYTHING", "Match", "matching"]

Term = tuple[int, int, int]
"""Term of a match: index of the field, value, mask."""

_LIMITS = tuple((item.full, item.lowest, item.highest) for item in FIELDS)
_NEEDS = tuple(
    None if item.needs is None else (FIELD[item.needs.name].index, item.needs.values)
    for item in FIELDS
)
_PROTO, _FRAG = FIELD["ip_proto"].index, FIELD["ip_frag"].index
_CT_STATE, _TRACKED = FIELD["ct_state"].index, {item.index for item in FIELDS if item.tracked}
_BELONGS, _INVALID, _IS_TRACKED = 0b1100_1111, 0x10, 0x20
"""Bits of the connection state: those that only packets of a connection have, and two more."""
_LATER = 2
_CONDITIONAL = {index for index, need in enumerate(_NEEDS) if need is not None} | _TRACKED
"""Fields that not all packets have."""


@frozen
class Match:
    """Packets for which every term holds.  Combine with ``&``; contradictions are refused."""

    terms: tuple[Term, ...] = field(default=())

    def __and__(self, other: Match) -> Match:
        mine, theirs = self.terms, other.terms
        if not mine or not theirs:
            return other if theirs else self
        if theirs[0][0] > mine[-1][0]:
            return _match(mine + theirs)
        if mine[0][0] > theirs[-1][0]:
            return _match(theirs + mine)
        if len(theirs) == 1:  # the most frequent case, and the quickest
            index = theirs[0][0]
            place = bisect_left(mine, (index,))
            if mine[place][0] != index:
                return _match(mine[:place] + theirs + mine[place:])
        terms = {term[0]: term for term in mine}
        for term in theirs:
            known = terms.get(term[0])
            terms[term[0]] = term if known is None else _merged(known, term)
        return _match(tuple(sorted(terms.values())))

    def __iter__(self) -> Iterator[tuple[MatchField, int, int]]:
        for index, value, mask in self.terms:
            yield FIELDS[index], value, mask

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        from netfw.flows.match_text import render_match

        return render_match(self) or "anything"

    def get(self, name: str) -> tuple[int, int] | None:
        """Return value and mask of the field *name*, or None if it is not matched."""
        index = FIELD[name].index
        for number, value, mask in self.terms:
            if number == index:
                return value, mask
        return None

    def check(self) -> None:
        """Refuse terms whose prerequisites are missing; the switch would drop or refuse them.

        :raises ValueError: names the term and what to add.
        """
        values: dict[int, int] = {}
        for index, value, _ in self.terms:  # a field comes after those that it needs
            values[index] = value
            if index not in _CONDITIONAL:
                continue
            need = _NEEDS[index]
            if need is not None and values.get(need[0]) not in need[1]:
                name = FIELDS[index].name
                raise ValueError(f"{name} is matched without what it needs: {_needed(index)}")
            if need is not None and need[0] == _PROTO and values.get(_FRAG, 0) & _LATER:
                raise ValueError(f"{FIELDS[index].name} is not there in later fragments")
            if index in _TRACKED and not self._belongs():
                raise ValueError(
                    f"{FIELDS[index].name} is matched without what it needs: "
                    "add ct_state('+trk-inv'), or a state such as '+est'"
                )

    def _belongs(self) -> bool:
        """Return whether packets of this match belong to a connection."""
        for index, value, mask in self.terms:
            if index == _CT_STATE:
                valid = value & _IS_TRACKED and mask & _INVALID and not value & _INVALID
                return bool(value & _BELONGS or valid)
        return False

    def satisfies(self, wanted: MatchField) -> bool:
        """Return whether packets of this match have the field *wanted* at all."""
        need = _NEEDS[wanted.index] if wanted.index >= 0 else None
        if need is None:
            return True
        for index, value, _ in self.terms:
            if index == need[0]:
                return value in need[1]
        return False


_new, _set_terms = object.__new__, vars(Match)["terms"].__set__


def _match(terms: tuple[Term, ...]) -> Match:
    """Make a match without the constructor of a frozen class, which takes half as long again."""
    match: Match = _new(Match)
    _set_terms(match, terms)
    return match


ANYTHING = Match()
"""Match of every packet."""


def _needed(index: int) -> str:
    return f"add {FIELDS[index].needs}"


def _merged(one: Term, two: Term) -> Term:
    index = one[0]
    both = one[2] & two[2]
    if one[1] & both != two[1] & both:
        name = FIELDS[index].name
        raise ValueError(f"{name} cannot be {one[1]:#x} and {two[1]:#x} at the same time")
    return index, one[1] | two[1], one[2] | two[2]


def matching(where: MatchField, value: int, mask: int | None = None) -> Match:
    """Match *where* for *value*, exactly or in the bits of *mask*.

    :raises ValueError: the value does not fit, has bits outside of the mask, or the field can
        only be matched exactly.
    """
    full, lowest, highest = _LIMITS[where.index]
    if mask is None and lowest <= value <= highest:
        return _match(((where.index, value, full),))
    mask = full if mask is None else mask
    if not 0 <= value <= full or not 0 < mask <= full:
        raise ValueError(f"{where.name} has {where.width} bits: {value:#x}/{mask:#x} does not fit")
    if value < lowest:
        raise ValueError(f"{where.name} is at least {lowest}, not {value}")
    if value > highest:
        raise ValueError(f"{where.name} is at most {highest}, not {value}")
    if value & ~mask:
        raise ValueError(f"{where.name}: {value:#x} has bits outside of its mask {mask:#x}")
    if mask != full and not where.maskable:
        raise ValueError(f"{where.name} is matched exactly or not at all")
    return _match(((where.index, value, mask),))
