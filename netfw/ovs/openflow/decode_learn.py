"""``learn`` from bytes: the reverse of ``encode_learn``.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from netfw.flows import Bits, Learn, LearnLoad, LearnMatch, LearnOutput
from netfw.flows.learn import LearnSpec
from netfw.ovs.openflow.nicira import field_of

_LEARN = Struct("!HHHQHBxHH")
_LIMIT = Struct("!IHxx")
_FIELD = Struct("!I")
_SPEC = Struct("!H")
_BITS = Struct("!IH")
_WRITES_RESULT = 1 << 2
_IMMEDIATE, _KIND, _WIDTH = 1 << 13, 3 << 11, (1 << 11) - 1
_LOAD, _OUTPUT = 1 << 11, 2 << 11


def decode_learn(body: bytes, *, limited: bool) -> Learn:
    """Return the action whose bytes *body* are, behind the number of the action.

    :raises ValueError: it has fields or flags that :class:`~netfw.flows.Learn` has not.
    """
    idle, hard, priority, cookie, flags, table, *fin_timeouts = _LEARN.unpack_from(body)
    position, limit, first = _LEARN.size, 0, 0
    result: Bits | None = None
    if limited:
        limit, first = _LIMIT.unpack_from(body, position)
        position += _LIMIT.size
    if limited and flags & _WRITES_RESULT:
        result = Bits(field_of(_FIELD.unpack_from(body, position)[0]), first, first)
        flags, position = flags & ~_WRITES_RESULT, position + _FIELD.size
    if flags or any(fin_timeouts):
        raise ValueError(f"learn has flags {flags:#x} or timeouts after FIN")
    return Learn(
        table=table, specs=tuple(_specs(body, position)), priority=priority, cookie=cookie,
        idle_timeout=idle, hard_timeout=hard, limit=limit, result=result,
    )  # fmt: skip


def _specs(body: bytes, position: int) -> Iterator[LearnSpec]:
    while position + _SPEC.size <= len(body):
        (head,) = _SPEC.unpack_from(body, position)
        if not head:
            return
        position += _SPEC.size
        width = head & _WIDTH
        source: Bits | int
        if head & _IMMEDIATE:
            size = (width + 15) // 16 * 2
            source = int.from_bytes(body[position : position + size], "big")
            position += size
        else:
            source, position = _bits(body, position, width), position + _BITS.size
        if head & _KIND == _OUTPUT and isinstance(source, Bits):
            yield LearnOutput(source)
            continue
        target, position = _bits(body, position, width), position + _BITS.size
        yield (LearnLoad if head & _KIND == _LOAD else LearnMatch)(target, source)


def _bits(body: bytes, position: int, width: int) -> Bits:
    number, first = _BITS.unpack_from(body, position)
    return Bits(field_of(number), first, first + width - 1)
