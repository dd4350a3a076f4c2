"""Flows as the bytes of OpenFlow 1.4, and back as far as a person needs it.

A flow on the wire is a *key* (table, priority, match) and a *state* (cookie, timeouts,
instructions); flow-mods, dumps and monitors all carry these two.  os-ken is the oracle in the
tests; here a struct per action is what makes ten thousand flows a matter of tenths of a second.

Trap: the switch returns fields in its own order, which is that of ``FIELDS``; ``canonical``
restores it for switches that think otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import lt
from struct import Struct

from netfw.flows import FIELDS, Flow, Match, MatchField, render_match
from netfw.ovs.openflow.encode_action import encode_instructions

Key = bytes
"""Table (1), priority (2), then the fields of the match in the order of ``FIELDS``."""
State = bytes
"""Cookie (8), idle timeout (2), hard timeout (2), then the instructions."""

_KEY = Struct("!BH")
_STATE = Struct("!QHH")


class Encoded:
    """A flow and its two halves on the wire, each made when first asked for.

    So the switch takes in the first flows of a bundle while the later ones are being encoded.
    """

    __slots__ = ("_key", "_state", "flow")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._key: Key | None = None
        self._state: State | None = None

    def __repr__(self) -> str:
        return f"Encoded({self.flow})"

    @property
    def key(self) -> Key:
        if self._key is None:
            flow = self.flow
            self._key = _KEY.pack(flow.table, flow.priority) + encode_match(flow.match)
        return self._key

    @property
    def state(self) -> State:
        if self._state is None:
            flow = self.flow
            self._state = _STATE.pack(
                flow.cookie, flow.idle_timeout, flow.hard_timeout
            ) + encode_instructions(flow.actions)
        return self._state


def _header(where: MatchField, has_mask: bool) -> bytes:
    oxm_class, number = where.oxm
    size = where.size * (2 if has_mask else 1)
    return Struct("!HBB").pack(oxm_class, number << 1 | has_mask, size)


_WIRE = tuple((_header(f, False), _header(f, True), f.size, f.full) for f in FIELDS)
_INDEX = {header[:3]: index for index, wire in enumerate(_WIRE) for header in wire[:2]}
"""Fields by class and number on the wire, with and without the bit for a mask."""


def encode_match(match: Match) -> bytes:
    """Encode the fields of *match*, without the header and the padding of a match."""
    parts = []
    for index, value, mask in match.terms:
        exact, masked, size, full = _WIRE[index]
        if mask == full:
            parts.append(exact + value.to_bytes(size, "big"))
        else:
            parts.append(masked + value.to_bytes(size, "big") + mask.to_bytes(size, "big"))
    return b"".join(parts)


def encode_flows(flows: Iterable[Flow]) -> dict[Key, Encoded]:
    """Encode flows, and return them by key; of two with one key, the latter."""
    return {encoded.key: encoded for encoded in map(Encoded, flows)}


def cookie_of(state: bytes) -> int:
    return int.from_bytes(state[:8], "big")


def canonical(key: Key) -> Key:
    """Return *key* with its fields in our order, whatever order the switch uses."""
    fields = _split(key[3:])
    order = [_INDEX.get(oxm[:3], len(FIELDS)) for oxm in fields]
    if all(map(lt, order, order[1:])):
        return key
    ordered = sorted(fields, key=lambda oxm: (_INDEX.get(oxm[:3], len(FIELDS)), oxm))
    return key[:3] + b"".join(ordered)


def decode_match(fields: bytes) -> Match:
    """Return the match of *fields*, without unknown ones."""
    known = (_term(oxm) for oxm in _split(fields))
    return Match(tuple(sorted(term for term in known if term is not None)))


def decode_field(key: Key, where: MatchField) -> tuple[int, int] | None:
    """Return value and mask of one field of *key*, or ``None`` if it is not matched."""
    for oxm in _split(key[3:]):
        if _INDEX.get(oxm[:3]) == where.index:
            term = _term(oxm)
            return None if term is None else term[1:]
    return None


def describe_key(key: Key) -> str:
    """Render *key* as text; unknown fields are in hex."""
    table, priority = _KEY.unpack_from(key)
    strange = [oxm.hex() for oxm in _split(key[3:]) if oxm[:3] not in _INDEX]
    parts = (f"table={table},priority={priority}", render_match(decode_match(key[3:])), *strange)
    return ",".join(part for part in parts if part)


def _split(fields: bytes) -> list[bytes]:
    found = []
    position, end = 0, len(fields)
    while position + 4 <= end:
        after = position + 4 + fields[position + 3]
        found.append(fields[position:after])
        position = after
    return found


def _term(oxm: bytes) -> tuple[int, int, int] | None:
    index = _INDEX.get(oxm[:3])
    if index is None:
        return None
    size, full = _WIRE[index][2:]
    value = int.from_bytes(oxm[4 : 4 + size], "big")
    return index, value, int.from_bytes(oxm[4 + size :], "big") if oxm[2] & 1 else full
