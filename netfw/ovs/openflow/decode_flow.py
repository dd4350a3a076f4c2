"""Flows from the bytes of OpenFlow 1.4: the reverse of ``encode``.  Pure."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from types import MappingProxyType

from netfw.flows import Flow
from netfw.ovs.openflow.decode_action import Limits, decode_instructions
from netfw.ovs.openflow.encode import Encoded, Key, State, canonical, decode_match, describe_key

_KEY = Struct("!BH")
_STATE = Struct("!QHH")
NO_LIMITS: Limits = MappingProxyType({})


def decode_flow(key: Key, state: State, limits: Limits = NO_LIMITS) -> Flow:
    """Return the flow whose bytes these are.

    A flow carries the numbers of its meters; their limits come from *limits*.

    :raises ValueError: it has what a :class:`~netfw.flows.Flow` has not, or is cut short.
    """
    try:
        table, priority = _KEY.unpack_from(key)
        cookie, idle_timeout, hard_timeout = _STATE.unpack_from(state)
        flow = Flow(
            table=table,
            priority=priority,
            match=decode_match(key[_KEY.size :]),
            actions=decode_instructions(state[_STATE.size :], limits),
            cookie=cookie,
            idle_timeout=idle_timeout,
            hard_timeout=hard_timeout,
        )
        again = Encoded(flow)
        if (again.key, again.state) != (canonical(key), state):
            raise ValueError("it has a field or an action that Flow has not")
    except (ValueError, IndexError, struct_error) as exc:
        raise ValueError(f"{describe_key(key)}: cannot be a Flow: {exc}") from exc
    return flow
