"""The laws of every `HostDriver`, for the suites of the single contracts to build on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.host_driver import HostDriver
from netfw.errors import BackendUnavailable, Conflict
from netfw.plan import Outcome, Update
from netfw.testing.conformance.promises import proves, proves_raise

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class HostDriverConformance(Generic[K, V]):
    """One test and more per promise of :class:`HostDriver`.

    The methods and fixtures up to the first test are hooks.  Every test starts on a host that holds
    nothing of the driver's, and nothing is skipped but for a capability that the driver does not
    declare.
    """

    @pytest.fixture
    def make_driver(self) -> Callable[[], HostDriver[K, V]]:
        """Makes driver objects, all for the same host, which is clean when the test begins."""
        raise NotImplementedError("override the `make_driver` fixture with one that makes yours")

    @pytest.fixture
    def driver(self, make_driver: Callable[[], HostDriver[K, V]]) -> Iterator[HostDriver[K, V]]:
        driver = make_driver()
        yield driver
        driver.close()

    def examples(self, count: int) -> dict[K, V]:
        """*count* different wanted things, that do not get into each other's way."""
        raise NotImplementedError("override `examples`")

    def changed(self, value: V) -> V:
        """*value*, different in every way that can be changed in place."""
        raise NotImplementedError("override `changed`")

    def actual(self, key: K, value: V) -> V | None:
        """What the machine has for *key*, found out without the driver; ``None``: nothing.

        *value* is where to look; what is returned equals it when the machine agrees.
        """
        raise NotImplementedError("override `actual`")

    def make_foreign(self, value: V) -> None:
        """Make, not through the driver, something that has the name that *value* wants."""
        raise NotImplementedError("override `make_foreign`")

    def foreign_is_intact(self, value: V) -> bool:
        """Whether what `make_foreign` made is still there, as it was."""
        raise NotImplementedError("override `foreign_is_intact`")

    def vanish(self, key: K, value: V) -> None:
        """Remove what the driver made for *key*, not through the driver."""
        raise NotImplementedError("override `vanish`")

    def outage(self) -> AbstractContextManager[None]:
        """Within it the backend does not answer; after it, it does."""
        raise NotImplementedError("override `outage`")

    def require(self, driver: HostDriver[K, V], capability: Capability) -> None:
        """Skip the test when the driver does not claim to be capable of this."""
        if capability not in driver.describe().capabilities:
            pytest.skip(f"the driver does not declare the capability {capability.value!r}")

    def assert_so(self, wanted: Mapping[K, V]) -> None:
        """The machine has what is *wanted*."""
        assert {key: self.actual(key, value) for key, value in wanted.items()} == dict(wanted)

    def assert_gone(self, wanted: Mapping[K, V]) -> None:
        """The machine has nothing of what was *wanted*."""
        left = {key: self.actual(key, value) for key, value in wanted.items()}
        assert left == dict.fromkeys(wanted)

    @proves(HostDriver, 1)
    def test_what_is_put_is_so_and_what_is_dropped_is_gone(self, driver: HostDriver[K, V]) -> None:
        wanted = self.examples(3)
        assert driver.converge(Update(put=wanted)) == Outcome(done=frozenset(wanted))
        self.assert_so(wanted)
        assert driver.converge(Update(drop=frozenset(wanted))) == Outcome(done=frozenset(wanted))
        self.assert_gone(wanted)
        assert driver.held() == frozenset()

    @proves(HostDriver, 1)
    def test_repeating_changes_nothing(self, driver: HostDriver[K, V]) -> None:
        wanted = self.examples(2)
        for _ in range(3):
            assert driver.converge(Update(put=wanted)).ok
            self.assert_so(wanted)
            assert driver.held() == wanted.keys()
        for _ in range(3):
            assert driver.converge(Update(drop=frozenset(wanted))).ok
            self.assert_gone(wanted)

    @proves(HostDriver, 1)
    def test_a_changed_value_is_put_right(self, driver: HostDriver[K, V]) -> None:
        wanted = self.examples(2)
        driver.converge(Update(put=wanted))
        changed = {key: self.changed(value) for key, value in wanted.items()}
        assert driver.converge(Update(put=changed)).ok
        self.assert_so(changed)

    @proves(HostDriver, 1, 3)
    def test_states_can_be_visited_in_any_order(self, driver: HostDriver[K, V]) -> None:
        """The machine depends on what is wanted now, not on how it came about."""
        things = self.examples(3)
        one, two, three = things
        changed = {one: self.changed(things[one]), two: things[two]}
        states = [{}, {one: things[one]}, things, changed, {three: things[three]}]
        shuffled = random.Random(1).sample(states * 2, 2 * len(states))
        for state in [*states, *reversed(states), *shuffled]:
            assert driver.converge(Update(put=state, complete=True)).ok
            self.assert_so(state)
            assert driver.held() == state.keys()
        driver.converge(Update(complete=True))
        self.assert_gone(things)

    @proves(HostDriver, 2)
    def test_dropping_what_is_absent_succeeds(self, driver: HostDriver[K, V]) -> None:
        absent = frozenset(self.examples(2))
        assert driver.converge(Update(drop=absent)) == Outcome(done=absent)
        assert driver.converge(Update(drop=absent)) == Outcome(done=absent)

    @proves(HostDriver, 3)
    def test_a_complete_update_removes_the_rest(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        one, two, three = things
        driver.converge(Update(put=things))
        update = Update(put={one: things[one]}, complete=True, keep=frozenset({two}))
        assert driver.converge(update).ok
        self.assert_so({one: things[one], two: things[two]})
        self.assert_gone({three: things[three]})
        assert driver.held() == {one, two}

    @proves(HostDriver, 3)
    def test_an_update_that_is_not_complete_leaves_the_rest(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        for key, value in things.items():
            assert driver.converge(Update(put={key: value})).ok
        self.assert_so(things)

    @proves(HostDriver, 3)
    def test_gc_keeps_what_it_is_told_and_nothing_else(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        driver.converge(Update(put=things))
        kept = next(iter(things))
        assert driver.gc([kept]).ok
        assert driver.held() == {kept}
        self.assert_so({kept: things[kept]})

    @proves(HostDriver, 4)
    def test_one_failure_concerns_one_key(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        one, two, three = things
        self.make_foreign(things[two])
        outcome = driver.converge(Update(put=things))
        assert outcome.failed.keys() == {two}
        assert outcome.done == {one, three}
        self.assert_so({one: things[one], three: things[three]})

    @proves(HostDriver, 5)
    def test_what_the_driver_did_not_make_is_a_conflict_and_stays(
        self, driver: HostDriver[K, V]
    ) -> None:
        things = self.examples(1)
        ((key, value),) = things.items()
        self.make_foreign(value)
        for _ in range(2):
            outcome = driver.converge(Update(put=things, complete=True))
            assert isinstance(outcome.failed[key], Conflict), outcome
            assert self.foreign_is_intact(value)

    @proves(HostDriver, 5)
    def test_removal_leaves_what_the_driver_did_not_make(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        (key, value), (other, foreign) = things.items()
        driver.converge(Update(put={key: value}))
        self.make_foreign(foreign)
        assert driver.converge(Update(drop=frozenset({other}))).ok
        assert driver.converge(Update(complete=True)).ok
        self.assert_gone({key: value})
        assert self.foreign_is_intact(foreign)

    @proves(HostDriver, 6)
    def test_a_driver_that_was_killed_is_succeeded_by_the_next(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = self.examples(2)
        make_driver().converge(Update(put=things))  # and nobody closes it
        successor = make_driver()
        assert successor.held() == things.keys()
        assert successor.converge(Update(put=things, complete=True)).ok
        self.assert_so(things)
        assert successor.converge(Update(complete=True)).ok
        self.assert_gone(things)
        successor.close()

    @proves(HostDriver, 7)
    def test_held_is_what_the_host_has(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        gone, there = things
        driver.converge(Update(put=things))
        self.vanish(gone, things[gone])
        assert driver.held() == {there}
        assert driver.converge(Update(put=things)).ok
        self.assert_so(things)
        assert driver.held() == things.keys()

    @proves(HostDriver, 7)
    def test_a_refused_key_is_not_held(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        ((key, value),) = things.items()
        self.make_foreign(value)
        driver.converge(Update(put=things))
        assert key not in driver.held()

    @proves_raise(HostDriver, "converge", BackendUnavailable)
    def test_converge_says_that_nobody_answers(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.converge(Update(put=things))
        assert driver.converge(Update(put=things)).ok
        self.assert_so(things)

    @proves_raise(HostDriver, "held", BackendUnavailable)
    def test_held_says_that_nobody_answers(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        driver.converge(Update(put=things))
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.held()
        assert driver.held() == things.keys()

    def test_two_driver_objects_work_on_one_host_at_once(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = list(self.examples(6).items())
        drivers = make_driver(), make_driver()
        outcomes: list[Outcome[K]] = []

        def work(driver: HostDriver[K, V], mine: list[tuple[K, V]]) -> None:
            for key, value in mine:
                outcomes.append(driver.converge(Update(put={key: value})))

        threads = [
            threading.Thread(target=work, args=(driver, things[number::2]))
            for number, driver in enumerate(drivers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [outcome.failed for outcome in outcomes] == [{}] * len(things)
        self.assert_so(dict(things))
        for driver in drivers:
            assert driver.held() == dict(things).keys()
            driver.close()

    def test_closing_leaves_the_machine_as_it_is(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        driver.converge(Update(put=things))
        driver.close()
        driver.close()
        self.assert_so(things)

    def test_an_empty_update_is_nothing(self, driver: HostDriver[K, V]) -> None:
        assert driver.converge(Update()) == Outcome()
