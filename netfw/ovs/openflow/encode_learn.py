"""``learn`` as bytes."""

from __future__ import annotations

from struct import Struct

from netfw.flows import Bits, Learn, LearnLoad, LearnMatch, LearnOutput
from netfw.flows.learn import LearnSpec
from netfw.ovs.openflow.nicira import NICIRA, header

_LEARN = Struct("!HHIHHHHQHBxHH")
_LIMIT = Struct("!IHxx")
"""Follows in an action with a limit: that, and the bit of the result in its field."""
_FIELD = Struct("!I")
_WRITES_RESULT = 1 << 2
_LEARN_ACTION, _LIMITED_LEARN_ACTION = 16, 45
_SPEC = Struct("!H")
_BITS = Struct("!IH")
_IMMEDIATE = 1 << 13
_MATCH, _LOAD, _OUTPUT = 0, 1 << 11, 2 << 11


def encode_learn(action: Learn) -> bytes:
    body = b"".join(map(_learn_spec, action.specs))
    kind, flags, result = _LEARN_ACTION, 0, action.result
    if result is not None:
        flags, body = _WRITES_RESULT, _FIELD.pack(header(result.field)) + body
    if action.limit:
        first = 0 if result is None else result.first
        kind, body = _LIMITED_LEARN_ACTION, _LIMIT.pack(action.limit, first) + body
    length = _LEARN.size + len(body)
    padding = -length % 8
    return (
        _LEARN.pack(
            0xFFFF, length + padding, NICIRA, kind, action.idle_timeout, action.hard_timeout,
            action.priority, action.cookie, flags, action.table, 0, 0,
        )
        + body
        + bytes(padding)
    )  # fmt: skip


def _learn_spec(spec: LearnSpec) -> bytes:
    match spec:
        case LearnOutput(source=source):
            return _SPEC.pack(_OUTPUT | source.width) + _bits(source)
        case LearnMatch(target=target, source=source):
            return _assignment(_MATCH, target, source)
        case LearnLoad(target=target, source=source):
            return _assignment(_LOAD, target, source)


def _assignment(kind: int, target: Bits, source: Bits | int) -> bytes:
    if isinstance(source, int):
        size = (target.width + 15) // 16 * 2
        start = _SPEC.pack(_IMMEDIATE | kind | target.width) + source.to_bytes(size, "big")
    else:
        start = _SPEC.pack(kind | target.width) + _bits(source)
    return start + _bits(target)


def _bits(bits: Bits) -> bytes:
    return _BITS.pack(header(bits.field), bits.first)
