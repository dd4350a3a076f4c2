"""Deltas in parts that fit into messages.

A part is what comes behind a place in the order of refs, as much as a message takes.  The next one
is asked for with the place where this one ended, and may be worked out by another process at a
later moment: the cursor that counts is the oldest of all parts, so whatever the parts do not agree
on is among the changes since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from netfw.drivers.state_source import Cursor, Delta
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.wire import render
from netfw.state.rpc.codecs import CURSOR, REF, read
from netfw.state.rpc.compat import PeerCompatibility
from netfw.state.rpc.envelope import Content, text
from netfw.state.rpc.protocols import EncodedDelta, position

BUDGET = 256 * 1024
"""Bytes after which a part ends.  One resource can be larger, and is then sent alone."""


@frozen(kw_only=True)
class DeltaPage:
    """What one message says of a delta."""

    delta: Delta
    after: object = None
    """Where to go on; ``None``: this was the end."""


def written(delta: Delta) -> EncodedDelta:
    """*delta* with its resources as text."""
    return EncodedDelta(
        put={ref(each): text(render(each)) for each in delta.put},
        drop=delta.drop,
        cursor=delta.cursor,
        more=delta.more,
    )


def write_part(
    delta: EncodedDelta, after: Ref | None, budget: int, *, goes_on: bool = False
) -> bytes:
    """What comes behind *after*; *goes_on*: the delta is itself a page, and more follows it."""
    begin = None if after is None else position(after)
    refs = sorted((*delta.put, *delta.drop), key=position)
    there = [each for each in refs if begin is None or position(each) > begin]
    put: list[str] = []
    drop: list[str] = []
    size = taken = 0
    for each in there:
        body = delta.put.get(each)
        line = f'["{each.kind}",{body or text(str(each.id))}]'
        if taken and size + len(line) > budget:
            break
        (drop if body is None else put).append(line)
        size, taken = size + len(line), taken + 1
    unsaid = taken < len(there) or goes_on
    head = {
        "cursor": CURSOR.render(delta.cursor),
        "more": delta.more,
        "after": REF.render(there[taken - 1]) if unsaid and taken else None,
    }
    return f'{text(head)[:-1]},"put":[{",".join(put)}],"drop":[{",".join(drop)}]}}'.encode()


def read_part(content: Content, peer: PeerCompatibility) -> DeltaPage:
    """What a message says.

    :raises InvalidInput: it is no part of a delta.
    """
    put = (peer.resource(*_pair(each)) for each in content.get("put", ()))
    return DeltaPage(
        delta=Delta(
            put=tuple(each for each in put if each is not None),
            drop=frozenset(_dropped(content.get("drop", ()))),
            cursor=read(CURSOR, content.get("cursor"), "cursor"),
            more=bool(content.get("more")),
        ),
        after=content.get("after"),
    )


def joined(parts: Iterable[Delta]) -> Delta:
    """The delta whose parts these are; of what two of them say, the later is right."""
    put: dict[Ref, Resource] = {}
    drop: set[Ref] = set()
    cursors: set[Cursor] = set()
    more = False
    for part in parts:
        new = {ref(each): each for each in part.put}
        put = {key: each for key, each in {**put, **new}.items() if key not in part.drop}
        drop = (drop | part.drop) - new.keys()
        cursors.add(part.cursor)
        more |= part.more
    oldest = min(cursors, key=lambda cursor: cursor.seq)
    return Delta(
        put=tuple(put.values()),
        drop=frozenset(drop),
        cursor=oldest,
        more=more or len(cursors) > 1,
    )


def _pair(raw: object) -> tuple[object, object]:
    return (raw[0], raw[1]) if isinstance(raw, list) and len(raw) == 2 else (None, raw)


def _dropped(raws: Iterable[object]) -> Iterator[Ref]:
    for raw in raws:
        kind, id = _pair(raw)
        if kind in list(Kind):
            yield read(REF, {"kind": kind, "id": id}, "drop")
