"""Coalescing of outbox entries: one change per resource since the last delivery."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from netfw.drivers.server.change import Change
from netfw.model.resource import Ref
from netfw.server.db.outbox import OutboxEntry


@frozen(kw_only=True)
class MergedChange:
    """Change of one resource, and the entries that its delivery finishes."""

    ref: Ref
    entries: tuple[OutboxEntry, ...]
    change: Change | None
    """Change from what was last delivered to the newest state; ``None``: nothing to deliver."""


def coalesce(entries: Sequence[OutboxEntry]) -> tuple[MergedChange, ...]:
    """Return the changes to deliver for the ordered *entries* of one lane, in delivery order.

    A resource is delivered once, in its newest state: at its first change, or, if it is deleted, at
    its deletion. So a resource follows what it needs, and its deletion follows that of what needed
    it.
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
