"""Snapshots and deltas for a reader, from one snapshot of the database.

Resources stay the encoded text of the database wherever nothing reads their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netfw.drivers.state_source import Cursor
from netfw.model.resource import Ref
from netfw.server.db import ReadSnapshot
from netfw.server.db.journal.topics import topics
from netfw.server.db.resources.row import value
from netfw.server.db.subscriptions.topic_contents import TopicSubscription
from netfw.state.rpc.source_interfaces import EncodedDelta, position
from netfw.tracing import RecentTraces


def snapshot_page(
    view: ReadSnapshot, readers: Sequence[str], after: Ref | None, size: int
) -> EncodedDelta:
    """Return a page of the resources that concern *readers*, in order, behind *after*."""
    cursor = view.journal.cursor()
    followed = [each.topic for each in view.topics.of(readers) if each.ended is None]
    concerning = sorted(view.topics.refs([*readers, *followed]), key=position)
    if after is not None:
        begin = position(after)
        concerning = [each for each in concerning if position(each) > begin]
    put = view.resources.texts(concerning[:size])
    return EncodedDelta(put=put, cursor=cursor, more=len(concerning) > size)


def changes(
    view: ReadSnapshot, readers: Sequence[str], since: Cursor, size: int, traces: RecentTraces
) -> EncodedDelta:
    """Return what changed for *readers*: whole commits, about so many entries of the journal.

    Reads the topics that changed and those that an entry names, not all that they follow.

    :raises CursorLost: the journal does not reach back to the cursor.
    """
    head = view.journal.head()
    head.check(since)
    if head.seq == since.seq:
        return EncodedDelta(cursor=since)
    entries, more = view.journal.concerning(since.seq, head.seq, readers, size)
    until = entries[-1].seq if more else head.seq
    named = view.topics.changed(readers, since.seq).union(entry.topic for entry in entries)
    followed = view.topics.among(named, readers)
    active = {each.topic for each in followed if each.ended is None}.union(readers)
    lately = active.union(each.topic for each in followed if (each.ended or 0) > since.seq)
    came = view.topics.refs(_began(followed, since.seq, until))
    doubtful = {entry.ref for entry in entries if entry.topic in lately}
    doubtful |= view.topics.refs(_ended(followed, since.seq, until))
    present = view.resources.texts(came | doubtful)
    delivered = {
        each: topics(value(each.kind, body)) for each, body in present.items() if each not in came
    }
    others = frozenset[str]().union(*delivered.values()) - named
    active.update(each.topic for each in view.topics.among(others, readers) if each.ended is None)
    put = {
        each: body
        for each, body in present.items()
        if each in came or not active.isdisjoint(delivered[each])
    }
    return EncodedDelta(
        put=put,
        drop=frozenset(doubtful - put.keys()),
        cursor=Cursor(head.epoch, until),
        more=more,
        traces=traces.of(entry.seq for entry in entries if entry.topic in lately),
    )


def _began(followed: Iterable[TopicSubscription], after: int, until: int) -> list[str]:
    """Return the topics followed since then: all their resources are new, however old."""
    return [each.topic for each in followed if each.ended is None and after < each.since <= until]


def _ended(followed: Iterable[TopicSubscription], after: int, until: int) -> list[str]:
    """Return the topics that ended: their resources may have to go."""
    return [each.topic for each in followed if after < (each.ended or 0) <= until]
