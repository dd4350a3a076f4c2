"""What a driver is to be told, of all that happened since it was last told.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from netfw.drivers.change import Change
from netfw.model.resource import Ref
from netfw.server.db.outbox import OutboxEntry


@frozen(kw_only=True)
class MergedChange:
    """One resource, and the entries that telling of it settles."""

    ref: Ref
    entries: tuple[OutboxEntry, ...]
    change: Change | None
    """From what was last delivered to what is newest; ``None``: there is nothing to tell."""


def works(entries: Sequence[OutboxEntry]) -> tuple[MergedChange, ...]:
    """What is to be delivered of *entries* of one lane, which are in order, and in which order.

    A resource is told of once, as it is newest: where it first changed, or, if it is gone, where
    it went, so that what is made comes after what it needs, and what goes after what needed it.
    """
    by_ref: dict[Ref, list[OutboxEntry]] = {}
    for entry in entries:
        by_ref.setdefault(entry.change.ref, []).append(entry)
    found = [_work(ref, tuple(some)) for ref, some in by_ref.items()]
    return tuple(sorted(found, key=_position))


def _work(ref: Ref, entries: tuple[OutboxEntry, ...]) -> MergedChange:
    first, last = entries[0].change, entries[-1].change
    before = first.before
    if before is None and last.after is None:
        if not any(entry.tried for entry in entries):
            return MergedChange(ref=ref, entries=entries, change=None)
        before = last.before
    return MergedChange(ref=ref, entries=entries, change=evolve(last, before=before))


def _position(work: MergedChange) -> tuple[int, int]:
    gone = work.entries[-1].change.after is None
    return work.entries[-1 if gone else 0].number
