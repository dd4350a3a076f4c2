"""The stores in memory keep the promises of a database: sets of numbers, and transactions."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import Conflict
from netfw.testing.fakes.number_pool import IntervalSet, NumberPool

numbers = st.integers(0, 12)


@given(st.lists(st.tuples(st.booleans(), numbers)), numbers, numbers)
def test_taken_numbers_are_a_set(steps: list[tuple[bool, int]], first: int, last: int) -> None:
    taken, model = IntervalSet(), set[int]()
    for adds, number in steps:
        if not adds:
            taken.discard(number)
            model.discard(number)
        elif number not in model:
            taken.add(number)
            model.add(number)
        assert list(taken) == sorted(model)
    assert [n in taken for n in range(13)] == [n in model for n in range(13)]
    free = min((n for n in range(first, last + 1) if n not in model), default=None)
    assert taken.first_free(first, last) == free


def test_a_free_number_of_a_large_range_is_found_at_once() -> None:
    taken = IntervalSet()
    taken.add(0)
    assert taken.first_free(0, 2**128) == 1


def test_what_a_transaction_took_is_free_when_it_fails() -> None:
    ledger: NumberPool[str] = NumberPool()
    with suppress(KeyError), ledger.transaction() as entries:
        assert entries.acquire("a", 1)
        raise KeyError
    with ledger.transaction() as entries:
        assert entries.acquire("a", 1)
        assert not entries.acquire("a", 1)
        assert entries.acquire("b", 1)


def test_what_a_failed_transaction_gave_back_is_still_taken() -> None:
    ledger: NumberPool[str] = NumberPool()
    with ledger.transaction() as entries:
        entries.acquire("a", 1)
    with suppress(KeyError), ledger.transaction() as entries:
        entries.release("a", 1)
        raise KeyError
    with ledger.transaction() as entries:
        assert not entries.acquire("a", 1)


def test_a_transaction_can_have_again_what_it_gave_back_itself() -> None:
    ledger: NumberPool[str] = NumberPool()
    with ledger.transaction() as entries:
        entries.acquire("a", 1)
    with ledger.transaction() as entries:
        entries.release("a", 1)
        assert entries.acquire_any("a", [(1, 1)]) == 1
        assert entries.acquire_any("a", [(1, 1)]) is None
    assert list(ledger.taken("a")) == [1]


def test_two_open_transactions_get_different_numbers_or_a_conflict() -> None:
    ledger: NumberPool[str] = NumberPool()
    with ledger.transaction() as one:
        assert one.acquire_any("a", [(1, 2)]) == 1
        with ledger.transaction() as two:
            assert two.acquire_any("a", [(1, 2)]) == 2
        with pytest.raises(Conflict), ledger.transaction() as two:
            two.acquire("a", 1)
        with pytest.raises(Conflict), ledger.transaction() as two:
            two.acquire_any("a", [(1, 2)])
    with ledger.transaction() as two:
        assert two.acquire_any("a", [(1, 2)]) is None
        assert not two.acquire("a", 1)


def test_what_is_being_given_back_is_not_free_before_the_end() -> None:
    ledger: NumberPool[str] = NumberPool()
    with ledger.transaction() as one:
        one.acquire("a", 1)
    with ledger.transaction() as one:
        one.release("a", 1)
        with pytest.raises(Conflict), ledger.transaction() as two:
            two.acquire("a", 1)
    with ledger.transaction() as two:
        assert two.acquire("a", 1)


def test_giving_back_what_is_free_changes_nothing() -> None:
    ledger: NumberPool[str] = NumberPool()
    with ledger.transaction() as entries:
        entries.acquire("a", 5)
        entries.release("a", 4)
        entries.release("a", 5)
        entries.release("a", 5)
    assert not list(ledger.taken("a"))
    assert not ledger.open
