"""What a reader gets, from one moment of the database: everything, or what changed for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netfw.drivers.state_source import Cursor, Delta
from netfw.messaging.remote.offer import position
from netfw.model.resource import Ref, Resource, ref
from netfw.server.db import View
from netfw.server.db.delivery import Following
from netfw.server.db.topics import topics


def part(view: View, readers: Sequence[str], after: Ref | None, size: int) -> Delta:
    """So many of the resources that concern *readers*, in order, behind *after*."""
    cursor = view.journal.cursor()
    followed = [each.topic for each in view.topics.of(readers) if each.ended is None]
    concerning = sorted(view.topics.refs([*readers, *followed]), key=position)
    if after is not None:
        begin = position(after)
        concerning = [each for each in concerning if position(each) > begin]
    put = _resources(view, concerning[:size])
    return Delta(put=put, cursor=cursor, more=len(concerning) > size)


def changes(view: View, readers: Sequence[str], since: Cursor, size: int) -> Delta:
    """What changed for *readers*: whole commits, about so many entries of the journal.

    :raises CursorLost: the journal can not tell.
    """
    head = view.journal.head()
    head.check(since)
    if head.seq == since.seq:
        return Delta(cursor=since)
    entries, more = view.journal.concerning(since.seq, readers, size)
    until = entries[-1].seq if more else head.seq
    followed = view.topics.of(readers)
    active = {each.topic for each in followed if each.ended is None}.union(readers)
    lately = active.union(each.topic for each in followed if (each.ended or 0) > since.seq)
    touched = {entry.ref for entry in entries if entry.topic in lately}
    touched |= view.topics.refs(_turned(followed, since.seq, until))
    present = _resources(view, touched)
    put = tuple(each for each in present if not active.isdisjoint(topics(each)))
    return Delta(
        put=put,
        drop=frozenset(touched).difference(map(ref, put)),
        cursor=Cursor(head.epoch, until),
        more=more,
    )


def _turned(followed: Iterable[Following], after: int, until: int) -> list[str]:
    """Topics that began or ended in between: all they bring came, or went, however old it is."""
    return [
        each.topic
        for each in followed
        if after < (each.since if each.ended is None else each.ended) <= until
    ]


def _resources(view: View, refs: Iterable[Ref]) -> tuple[Resource, ...]:
    return tuple(row.resource() for row in view.resources.present(refs))
