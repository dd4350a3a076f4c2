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
_OUTPUT, _SET_FIELD = 0, 25
_ETH_SRC = bytes.fromhex("80000806")
"""Header of the field in ``set_field``."""


def output_ports(state: State) -> frozenset[int]:
    """The ports that a flow sends packets out by, whatever else it does."""
    return frozenset(_outputs(state))


def written_eth_src(state: State) -> int | None:
    """The sender that a flow writes into packets, the last one if there are several."""
    found = None
    for kind, action in _actions(state):
        if kind == _SET_FIELD and action[4:8] == _ETH_SRC:
            found = int.from_bytes(action[8:14])
    return found


def _outputs(state: State) -> Iterator[int]:
    for kind, action in _actions(state):
        if kind == _OUTPUT:
            yield narrow(_PORT.unpack_from(action, 4)[0])


def _actions(state: State) -> Iterator[tuple[int, bytes]]:
    for kind, body in _pieces(state[_INSTRUCTIONS:]):
        if kind == _APPLY_ACTIONS:
            yield from _pieces(body[8:])


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each piece, header included."""
    position = 0
    while position + _HEADER.size <= len(data):
        kind, length = _HEADER.unpack_from(data, position)
        if length < _HEADER.size:
            return
        yield kind, data[position : position + length]
        position += length
