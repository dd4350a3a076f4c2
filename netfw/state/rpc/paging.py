"""Paging of deltas, so that each page fits into a message.

A page holds what follows a position in the order of refs, as much as a message takes.  The next
page is requested with the position where this one ended, and may come from another process at a
later moment.  The resulting cursor is the oldest of all pages: where pages are inconsistent, the
changes since that cursor correct them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from netfw.drivers.state_source import Cursor, Delta
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.wire import render
from netfw.state.rpc.codecs import CURSOR, REF, read
from netfw.state.rpc.compat import PeerCompatibility
from netfw.state.rpc.envelope import TRACES, Content, text
from netfw.state.rpc.source_interfaces import EncodedDelta, position

BUDGET = 256 * 1024
"""Bytes after which a page ends.  A larger resource is sent alone."""
LARGEST_PAGE, SMALLEST_PAGE = 500, 25
"""Numbers of resources that an agent requests at once."""


class PageSize:
    """The number of resources on each page of a snapshot, by the success of former snapshots.

    It is the same for all pages of a snapshot: a size that was too large for one page is not tried
    with the next one, which would abort every snapshot.
    """

    def __init__(self) -> None:
        self.limit = LARGEST_PAGE

    def shrink(self) -> None:
        """Halve it: there was no answer in time."""
        self.limit = max(SMALLEST_PAGE, self.limit // 2)

    def grow(self) -> None:
        """Double it: a snapshot is complete."""
        self.limit = min(LARGEST_PAGE, self.limit * 2)


@frozen(kw_only=True)
class DeltaPage:
    """The page of a delta in one message."""

    delta: Delta
    after: object = None
    """The position of the next page; ``None``: this is the last one."""


def encode_delta(delta: Delta) -> EncodedDelta:
    """Return *delta* with its resources as JSON text."""
    return EncodedDelta(
        put={ref(resource): text(render(resource)) for resource in delta.put},
        drop=delta.drop,
        cursor=delta.cursor,
        more=delta.more,
    )


def encode_page(
    delta: EncodedDelta,
    after: Ref | None,
    budget: int,
    *,
    limit: int | None = None,
    goes_on: bool = False,
) -> bytes:
    """Encode what follows *after*, *limit* resources at most.

    *goes_on*: *delta* is itself a page, and more follow.
    """
    start = None if after is None else position(after)
    refs = sorted((*delta.put, *delta.drop), key=position)
    remaining = [key for key in refs if start is None or position(key) > start]
    put: list[str] = []
    drop: list[str] = []
    size = taken = 0
    for key in remaining:
        body = delta.put.get(key)
        line = f'["{key.kind}",{body or text(str(key.id))}]'
        if taken == limit or (taken and size + len(line) > budget):
            break
        (drop if body is None else put).append(line)
        size, taken = size + len(line), taken + 1
    more = taken < len(remaining) or goes_on
    head: Content = {
        "cursor": CURSOR.render(delta.cursor),
        "more": delta.more,
        "after": REF.render(remaining[taken - 1]) if more and taken else None,
    }
    if delta.traces:
        head[TRACES] = list(delta.traces)
    return f'{text(head)[:-1]},"put":[{",".join(put)}],"drop":[{",".join(drop)}]}}'.encode()


def read_page(content: Content, peer: PeerCompatibility) -> DeltaPage:
    """Parse the page of a message.

    :raises InvalidInput: it is malformed.
    """
    put = (peer.resource(*_pair(raw)) for raw in content.get("put", ()))
    return DeltaPage(
        delta=Delta(
            put=tuple(resource for resource in put if resource is not None),
            drop=frozenset(_dropped(content.get("drop", ()))),
            cursor=read(CURSOR, content.get("cursor"), "cursor"),
            more=bool(content.get("more")),
        ),
        after=content.get("after"),
    )


def join_pages(pages: Iterable[Delta]) -> Delta:
    """Join the pages of a delta; where two name a resource, the later one wins."""
    put: dict[Ref, Resource] = {}
    drop: set[Ref] = set()
    cursors: set[Cursor] = set()
    more = False
    for page in pages:
        new = {ref(resource): resource for resource in page.put}
        put = {key: value for key, value in {**put, **new}.items() if key not in page.drop}
        drop = (drop | page.drop) - new.keys()
        cursors.add(page.cursor)
        more |= page.more
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
