"""Outputs, written senders, notes and conjunctions, read from the bytes of flows.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from netfw.flows import Conjunction
from netfw.flows.port_number import narrow_port
from netfw.ovs.openflow.encode import State
from netfw.ovs.openflow.nicira import NICIRA

_HEADER = Struct("!HH")
_PORT = Struct("!I")
_INSTRUCTIONS = 12
"""Where the instructions begin: behind cookie and timeouts."""
_APPLY_ACTIONS = 4
_OUTPUT, _SET_FIELD, _EXTENSION = 0, 25, 0xFFFF
_EXTENDED = Struct("!IH")
"""Vendor and subtype."""
_NOTE, _CONJUNCTION = (NICIRA, 8), (NICIRA, 34)
_CLAUSE = Struct("!BBI")
_ETH_SRC = bytes.fromhex("80000806")
"""Header of the field in ``set_field``."""


def output_ports(state: State) -> frozenset[int]:
    """Return the ports that a flow sends packets out by, whatever else it does."""
    return frozenset(_outputs(state))


def written_eth_src(state: State) -> int | None:
    """Return the sender that a flow writes into packets; the last one if there are several."""
    found = None
    for kind, action in _actions(state):
        if kind == _SET_FIELD and action[4:8] == _ETH_SRC:
            found = int.from_bytes(action[8:14])
    return found


def note_of(state: State) -> bytes | None:
    """Return the note of a flow; the first if there are several."""
    for which, body in _extensions(state):
        if which == _NOTE:
            return body
    return None


def conjunctions(state: State) -> tuple[Conjunction, ...]:
    """Return the clauses that a flow fulfils."""
    found = (
        _CLAUSE.unpack_from(body) for which, body in _extensions(state) if which == _CONJUNCTION
    )
    return tuple(Conjunction(id, clause + 1, clauses) for clause, clauses, id in found)


def _extensions(state: State) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yield vendor and subtype of each action that OpenFlow does not define, with its body."""
    for kind, action in _actions(state):
        if kind == _EXTENSION and len(action) >= _HEADER.size + _EXTENDED.size:
            which, subtype = _EXTENDED.unpack_from(action, _HEADER.size)
            yield (which, subtype), action[_HEADER.size + _EXTENDED.size :]


def _outputs(state: State) -> Iterator[int]:
    for kind, action in _actions(state):
        if kind == _OUTPUT:
            yield narrow_port(_PORT.unpack_from(action, 4)[0])


def _actions(state: State) -> Iterator[tuple[int, bytes]]:
    for kind, body in _pieces(state[_INSTRUCTIONS:]):
        if kind == _APPLY_ACTIONS:
            yield from _pieces(body[8:])


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and bytes of each piece, header included."""
    position = 0
    while position + _HEADER.size <= len(data):
        kind, length = _HEADER.unpack_from(data, position)
        if length < _HEADER.size:
            return
        yield kind, data[position : position + length]
        position += length
