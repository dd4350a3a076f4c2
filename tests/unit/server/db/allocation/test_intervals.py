"""Spans of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from netfw.server.db.allocation.intervals import (
    FreeInterval,
    Interval,
    divide,
    join_adjacent,
    subtract,
)

SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda p: Interval(p[0], p[0] + p[1])),
    max_size=6,
)


def numbers(spans: list[Interval]) -> set[int]:
    return {number for span in spans for number in range(span.first, span.last + 1)}


@given(SPANS)
def test_joined_spans_are_the_same_numbers_and_do_not_touch(spans: list[Interval]) -> None:
    result = list(join_adjacent(spans))
    assert numbers(result) == numbers(spans)
    assert all(one.last + 1 < two.first for one, two in pairwise(result))


@given(SPANS, SPANS)
def test_what_is_divided_by_offers_is_offered_exactly_there(
    spans: list[Interval], offers: list[Interval]
) -> None:
    result = divide(spans, offers)
    assert numbers([each.span for each in result]) == numbers(spans)
    assert sum(len(each.span) for each in result) == len(numbers(spans))
    offered = numbers([each.span for each in result if each.offered])
    assert offered == numbers(spans) & numbers(offers)


@given(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.data())
def test_taking_a_number_leaves_all_others(
    first: int, more: int, offered: bool, data: st.DataObject
) -> None:
    free = FreeInterval(Interval(first, first + more), offered)
    number = data.draw(st.integers(first, first + more))
    left = subtract(free, number)
    assert numbers([each.span for each in left]) == numbers([free.span]) - {number}
    assert all(each.offered == offered for each in left)
