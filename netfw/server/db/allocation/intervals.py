"""Spans of numbers, and what is done to those that are free.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen


@frozen
class Interval:
    """The numbers *first* to *last*."""

    first: int
    last: int

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1


@frozen
class Free:
    """A span that is free, and whether it is for whoever wants any."""

    span: Interval
    offered: bool


def subtract(free: Free, number: int) -> tuple[Free, ...]:
    """What is left of *free* when *number* is taken: none, one or two parts."""
    first, last = free.span.first, free.span.last
    parts = (Interval(first, number - 1), Interval(number + 1, last))
    return tuple(Free(part, free.offered) for part in parts if part.first <= part.last)


def divide(spans: Iterable[Interval], offers: Iterable[Interval]) -> tuple[Free, ...]:
    """*spans*, cut where *offers* begin and end; parts that touch and are alike are one."""
    ordered = tuple(join_adjacent(offers))
    return tuple(part for span in join_adjacent(spans) for part in _cut(span, ordered))


def join_adjacent(spans: Iterable[Interval]) -> Iterator[Interval]:
    """The same numbers in as few spans as there can be, in order."""
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


def _cut(span: Interval, offers: Iterable[Interval]) -> Iterator[Free]:
    at = span.first
    for offer in offers:
        first, last = max(offer.first, at), min(offer.last, span.last)
        if first > last:
            continue
        if at < first:
            yield Free(Interval(at, first - 1), False)
        yield Free(Interval(first, last), True)
        at = last + 1
    if at <= span.last:
        yield Free(Interval(at, span.last), False)
