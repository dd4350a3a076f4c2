"""Intervals of ids, and operations on free ones.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen


@frozen
class Interval:
    """The ids *first* to *last*."""

    first: int
    last: int

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1


@frozen
class FreeInterval:
    """A free interval, and whether ids are allocated from it automatically."""

    span: Interval
    offered: bool


def subtract(free: FreeInterval, number: int) -> tuple[FreeInterval, ...]:
    """Return *free* without *number*: none, one or two parts."""
    first, last = free.span.first, free.span.last
    parts = (Interval(first, number - 1), Interval(number + 1, last))
    return tuple(FreeInterval(part, free.offered) for part in parts if part.first <= part.last)


def divide(spans: Iterable[Interval], offers: Iterable[Interval]) -> tuple[FreeInterval, ...]:
    """Split *spans* at the ends of *offers*; adjacent parts of one kind are joined."""
    ordered = tuple(join_adjacent(offers))
    return tuple(part for span in join_adjacent(spans) for part in _cut(span, ordered))


def join_adjacent(spans: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the same ids in as few intervals as possible, in order."""
    current: Interval | None = None
    for span in sorted(spans, key=lambda each: each.first):
        if current is not None and span.first <= current.last + 1:
            current = Interval(current.first, max(current.last, span.last))
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current


def _cut(span: Interval, offers: Iterable[Interval]) -> Iterator[FreeInterval]:
    at = span.first
    for offer in offers:
        first, last = max(offer.first, at), min(offer.last, span.last)
        if first > last:
            continue
        if at < first:
            yield FreeInterval(Interval(at, first - 1), False)
        yield FreeInterval(Interval(first, last), True)
        at = last + 1
    if at <= span.last:
        yield FreeInterval(Interval(at, span.last), False)
