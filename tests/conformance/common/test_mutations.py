"""The checks of mutations find what they are for, on a contract of two methods."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from netfw.testing.conformance.common.promises import proves
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.mutations import Mutation, Mutations, breaks
from tests.conformance.common.suite_runner import Refusal, run_tests

pytestmark = pytest.mark.fakes


class Counter:
    """A contract.

    1. ``next`` returns 1, 2, 3.
    2. ``name`` is constant.
    """


class FakeCounter(Counter):
    VERSION = 2
    STEP = 1

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += self.step()
        return self.last

    @classmethod
    def step(cls) -> int:
        return cls.STEP

    @staticmethod
    def join(*parts: str) -> str:
        return "-".join(parts)

    @property
    def name(self) -> str:
        return self.join("a", "counter")


class CounterConformance:
    def __init__(self, kind: type[FakeCounter]) -> None:
        self.kind = kind

    @proves(Counter, 1)
    def test_numbers_follow_each_other(self) -> None:
        counter = self.kind()
        assert [counter.next(), counter.next()] == [1, 2]

    @proves(Counter, 2)
    def test_name_is_constant(self) -> None:
        assert self.kind().name == self.kind().name == "a-counter"


MUTATIONS = Mutations()


@MUTATIONS.override("next", breaks(Counter, 1))
def skip_numbers(driver, original):
    original()
    return original()


@MUTATIONS.override("step", breaks(Counter, 1))
def count_by_two(cls, original):
    return original() + 1


@MUTATIONS.override("name", breaks(Counter, 2))
def change_name(driver, original):
    return f"{original()} {id(driver)}"


@MUTATIONS.override("join", breaks(Counter, 2))
def join_once(original, *parts):
    return original(*parts[:1])


MUTATIONS.replace("stand_still", breaks(Counter, 1), STEP=0)


class TestCounterMutations(MutationChecks):
    SUITE = CounterConformance
    CONTRACTS = BROKEN_CONTRACTS = (Counter,)
    FAKE = FakeCounter
    MUTATIONS = MUTATIONS
    LEAST = 5

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        return run_tests(CounterConformance(driver), tests)


def checks_of(mutations: Mutations) -> MutationChecks:
    class Checks(TestCounterMutations):
        MUTATIONS = mutations

    return Checks()


def one(method: str, function, *promises) -> Mutation:
    return Mutations().override(method, *promises)(function)


def test_original_and_later_mutations_are_called_in_order() -> None:
    tripled = Mutations()
    doubled = tripled.override("next")(skip_numbers.overrides["next"])
    again = tripled.override("next", on=doubled)(lambda driver, original: original() * 10)
    assert again.apply(FakeCounter)().next() == 20
    assert FakeCounter().next() == 1


def test_a_mutation_may_override_several_methods() -> None:
    mutation = one("next", lambda driver, original: original() + driver.extra)
    mutation.also("__init__")(lambda driver, original: (original(), setattr(driver, "extra", 5))[0])
    assert mutation.apply(FakeCounter)().next() == 6


def test_mutation_that_no_test_refuses_is_reported() -> None:
    harmless = one("next", lambda driver, original: original())
    with pytest.raises(AssertionError, match="no test of the suite refuses it"):
        checks_of(MUTATIONS).test_mutation_is_refused_by_a_proof_of_the_promise_it_breaks(harmless)


def test_mutation_that_every_test_refuses_is_reported() -> None:
    fatal = one("__init__", lambda driver, original: pytest.fail("no driver"))
    with pytest.raises(AssertionError, match="every test refuses it"):
        checks_of(MUTATIONS).test_mutation_is_refused_by_a_proof_of_the_promise_it_breaks(fatal)


def test_mutation_that_is_refused_for_another_promise_is_reported() -> None:
    wrong = one("next", lambda driver, original: 7, breaks(Counter, 2))
    with pytest.raises(AssertionError, match="refused by"):
        checks_of(MUTATIONS).test_mutation_is_refused_by_a_proof_of_the_promise_it_breaks(wrong)


def test_test_that_refuses_nothing_and_promise_without_mutation_are_reported() -> None:
    few = Mutations()
    few.override("next", breaks(Counter, 1))(lambda driver, original: 7)
    checks = checks_of(few)
    with pytest.raises(AssertionError, match="test_name_is_constant"):
        checks.test_every_test_of_the_suite_refuses_a_mutation()
    with pytest.raises(AssertionError, match="Counter 2"):
        checks.test_every_promise_and_documented_error_is_broken_by_a_mutation()
    with pytest.raises(AssertionError):
        checks.test_number_of_mutations_does_not_shrink()


def test_two_mutations_of_one_name_are_refused() -> None:
    twice = Mutations()
    twice.replace("same", STEP=2)
    with pytest.raises(ValueError, match="two mutations same"):
        twice.replace("same", STEP=3)
