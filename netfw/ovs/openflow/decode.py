"""What the bytes of a flow that somebody else made say, as far as anybody asks.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from netfw.flows.port import narrow
from netfw.ovs.openflow.encode import State

_HEADER = Struct("!HH")
_PORT = Struct("!I")
_INSTRUCTIONS = 12
"""Where the instructions begin: behind cookie and timeouts."""
_APPLY_ACTIONS = 4
_OUTPUT = 0


def output_ports(state: State) -> frozenset[int]:
    """The ports that a flow sends packets out by, whatever else it does."""
    return frozenset(_outputs(state))


def _outputs(state: State) -> Iterator[int]:
    for kind, body in _pieces(state[_INSTRUCTIONS:]):
        if kind == _APPLY_ACTIONS:
            for action, rest in _pieces(body[8:]):
                if action == _OUTPUT:
                    yield narrow(_PORT.unpack_from(rest, 4)[0])


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each piece, header included."""
    position = 0
    while position + _HEADER.size <= len(data):
        kind, length = _HEADER.unpack_from(data, position)
        if length < _HEADER.size:
            return
        yield kind, data[position : position + length]
        position += length
