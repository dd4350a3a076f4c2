"""Tests of the promises of every `HostDriver`; the suites of the single contracts build on them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.host_driver import HostDriver
from netfw.errors import BackendLocked, BackendUnavailable, Conflict
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.diff import describe_difference
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.watch.suite import WatchedSuite

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MissingHooks(TypeError):
    """The refusal of a suite that does not override all hooks."""


def missing_hooks(suite: type) -> list[str]:
    """Return the hooks that neither *suite* nor a base class of it overrides."""

    def found_in(name: str) -> type:
        return next(base for base in suite.__mro__ if name in vars(base))

    return [
        name
        for listing in suite.__mro__
        for name in vars(listing).get("HOOKS", ())
        if found_in(name) is listing
    ]


def _say(wrong: Iterable[str]) -> None:
    sentences = "\n".join(wrong)
    if sentences:
        raise AssertionError(sentences)


class HostDriverConformance(WatchedSuite, Generic[K, V]):
    """One test or more per promise of :class:`HostDriver`.

    The methods and fixtures up to the first test are hooks.  Every test starts on a host without
    state of the driver.  A test is skipped only if the driver does not declare the capability that
    it needs.  A ``Test...`` class that lacks hooks is refused with all their names when it is
    defined.
    """

    HOOKS: ClassVar[tuple[str, ...]] = (
        "make_driver",
        "examples",
        "changed",
        "actual",
        "make_foreign",
        "foreign_is_intact",
        "vanish",
        "outage",
    )
    """Hooks that a subclass has to override.  A suite lists those that it adds."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        missing = missing_hooks(cls)
        if missing and cls.__name__.startswith("Test"):
            raise MissingHooks(
                f"{cls.__name__} lacks hooks: "
                f"override {', '.join(missing)}; what each is for is in {__name__} and beside it"
            )

    @pytest.fixture
    def make_driver(self) -> Callable[[], HostDriver[K, V]]:
        """Return a factory of driver objects for one host, which is clean when the test begins."""
        raise NotImplementedError("override the `make_driver` fixture with one that makes yours")

    @pytest.fixture
    def driver(self, make_driver: Callable[[], HostDriver[K, V]]) -> Iterator[HostDriver[K, V]]:
        driver = make_driver()
        yield driver
        driver.close()

    def examples(self, count: int) -> dict[K, V]:
        """Return *count* different keys with desired values that do not conflict."""
        raise NotImplementedError("override `examples`")

    def changed(self, value: V) -> V:
        """Return *value* with every field changed that can be changed in place."""
        raise NotImplementedError("override `changed`")

    def actual(self, key: K, value: V) -> V | None:
        """Return what the host has for *key*, read without the driver; ``None``: nothing.

        *value* gives the location; the result equals it if the host is as desired.
        """
        raise NotImplementedError("override `actual`")

    def make_foreign(self, value: V) -> None:
        """Create something with the name that *value* needs, without the driver."""
        raise NotImplementedError("override `make_foreign`")

    def foreign_is_intact(self, value: V) -> bool:
        """Return whether what `make_foreign` created is unchanged."""
        raise NotImplementedError("override `foreign_is_intact`")

    def vanish(self, key: K, value: V) -> None:
        """Remove what the driver made for *key*, without the driver."""
        raise NotImplementedError("override `vanish`")

    def outage(self) -> AbstractContextManager[None]:
        """Return a context in which the backend is unreachable."""
        raise NotImplementedError("override `outage`")

    def edge_cases(self, value: V) -> Mapping[str, V]:
        """Return variants of *value* at the limits of its fields, by what is unusual about them.

        The driver converges each or refuses it.  The suite of a contract defines them.
        """
        return {}

    def require(self, driver: HostDriver[K, V], capability: Capability) -> None:
        """Skip the test if the driver does not declare the capability."""
        if capability not in driver.describe().capabilities:
            pytest.skip(f"the driver does not declare the capability {capability.value!r}")

    def assert_so(self, wanted: Mapping[K, V]) -> None:
        """Assert that the host has what is *wanted*."""
        actual = {key: self.actual(key, value) for key, value in wanted.items()}
        _say(
            f"{key} {describe_difference(value, actual[key])}"
            for key, value in wanted.items()
            if actual[key] != value
        )

    def assert_gone(self, wanted: Mapping[K, V]) -> None:
        """Assert that the host has nothing of what was *wanted*."""
        actual = {key: self.actual(key, value) for key, value in wanted.items()}
        _say(
            f"{key} should be gone and is still there:\n  {left}"
            for key, left in actual.items()
            if left is not None
        )

    def assert_done(self, outcome: Outcome[K]) -> None:
        """Assert that every requested key is done."""
        _say(f"{key} should be done and failed: {error!r}" for key, error in outcome.failed.items())
        _say(f"{key} should be done and waits: {why}" for key, why in outcome.waiting.items())

    def assert_held(self, driver: HostDriver[K, V], keys: Set[K]) -> None:
        """Assert that exactly *keys* are present in the driver."""
        present = driver.present()
        _say(f"{key} should be present and is not" for key in keys - present)
        _say(f"{key} should not be present and is" for key in present - keys)

    @proves(HostDriver, 1)
    def test_what_is_put_is_so_and_what_is_dropped_is_gone(self, driver: HostDriver[K, V]) -> None:
        wanted = self.examples(3)
        assert driver.converge(Update(put=wanted)) == Outcome(done=frozenset(wanted))
        self.assert_so(wanted)
        assert driver.converge(Update(drop=frozenset(wanted))) == Outcome(done=frozenset(wanted))
        self.assert_gone(wanted)
        self.assert_held(driver, frozenset())

    @proves(HostDriver, 1)
    def test_repeating_changes_nothing(self, driver: HostDriver[K, V]) -> None:
        wanted = self.examples(2)
        for _ in range(3):
            self.assert_done(driver.converge(Update(put=wanted)))
            self.assert_so(wanted)
            self.assert_held(driver, wanted.keys())
        for _ in range(3):
            self.assert_done(driver.converge(Update(drop=frozenset(wanted))))
            self.assert_gone(wanted)

    @proves(HostDriver, 1)
    def test_a_changed_value_is_put_right(self, driver: HostDriver[K, V]) -> None:
        wanted = self.examples(2)
        driver.converge(Update(put=wanted))
        changed = {key: self.changed(value) for key, value in wanted.items()}
        self.assert_done(driver.converge(Update(put=changed)))
        self.assert_so(changed)

    @proves(HostDriver, 1, 3)
    def test_states_can_be_visited_in_any_order(self, driver: HostDriver[K, V]) -> None:
        """Check that the host depends on the desired state alone, not on its history."""
        things = self.examples(3)
        one, two, three = things
        changed = {one: self.changed(things[one]), two: things[two]}
        states = [{}, {one: things[one]}, things, changed, {three: things[three]}]
        shuffled = random.Random(1).sample(states * 2, 2 * len(states))
        for state in [*states, *reversed(states), *shuffled]:
            self.assert_done(driver.converge(Update(put=state, complete=True)))
            self.assert_so(state)
            self.assert_held(driver, state.keys())
        driver.converge(Update(complete=True))
        self.assert_gone(things)

    @proves(HostDriver, 2)
    def test_dropping_what_is_absent_succeeds(self, driver: HostDriver[K, V]) -> None:
        absent = frozenset(self.examples(2))
        assert driver.converge(Update(drop=absent)) == Outcome(done=absent), (
            "an absent key is not dropped"
        )
        assert driver.converge(Update(drop=absent)) == Outcome(done=absent), "nor a second time"

    @proves(HostDriver, 3)
    def test_a_complete_update_removes_the_rest(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        one, two, three = things
        driver.converge(Update(put=things))
        update = Update(put={one: things[one]}, complete=True, keep=frozenset({two}))
        self.assert_done(driver.converge(update))
        self.assert_so({one: things[one], two: things[two]})
        self.assert_gone({three: things[three]})
        self.assert_held(driver, {one, two})

    @proves(HostDriver, 3)
    def test_an_update_that_is_not_complete_leaves_the_rest(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        for key, value in things.items():
            self.assert_done(driver.converge(Update(put={key: value})))
        self.assert_so(things)

    @proves(HostDriver, 3)
    def test_gc_keeps_the_given_keys_and_nothing_else(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        driver.converge(Update(put=things))
        kept = next(iter(things))
        self.assert_done(driver.gc([kept]))
        self.assert_held(driver, {kept})
        self.assert_so({kept: things[kept]})

    @proves(HostDriver, 4)
    def test_one_failure_concerns_one_key(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        one, two, three = things
        self.make_foreign(things[two])
        outcome = driver.converge(Update(put=things))
        assert outcome.failed.keys() == {two}, f"only {two} meets a foreign object: {outcome}"
        assert outcome.done == {one, three}, f"the others are done: {outcome}"
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
            assert isinstance(outcome.failed.get(key), Conflict), (
                f"a foreign object is a Conflict, not {outcome}"
            )
            assert self.foreign_is_intact(value), "the foreign object was touched"

    @proves(HostDriver, 5)
    def test_removal_leaves_what_the_driver_did_not_make(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        (key, value), (other, foreign) = things.items()
        driver.converge(Update(put={key: value}))
        self.make_foreign(foreign)
        self.assert_done(driver.converge(Update(drop=frozenset({other}))))
        self.assert_done(driver.converge(Update(complete=True)))
        self.assert_gone({key: value})
        assert self.foreign_is_intact(foreign), "the foreign object was touched"

    @proves(HostDriver, 6)
    def test_a_driver_that_was_killed_is_succeeded_by_the_next(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = self.examples(2)
        make_driver().converge(Update(put=things))  # and it is never closed
        successor = make_driver()
        self.assert_held(successor, things.keys())
        self.assert_done(successor.converge(Update(put=things, complete=True)))
        self.assert_so(things)
        self.assert_done(successor.converge(Update(complete=True)))
        self.assert_gone(things)
        successor.close()

    @proves(HostDriver, 7)
    def test_present_is_what_the_host_has(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        gone, there = things
        driver.converge(Update(put=things))
        self.vanish(gone, things[gone])
        self.assert_held(driver, {there})
        self.assert_done(driver.converge(Update(put=things)))
        self.assert_so(things)
        self.assert_held(driver, things.keys())

    @proves(HostDriver, 7)
    def test_a_refused_key_is_not_present(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        ((key, value),) = things.items()
        self.make_foreign(value)
        driver.converge(Update(put=things))
        assert key not in driver.present(), "a key that was refused is present"

    @proves_raise(HostDriver, "converge", BackendUnavailable)
    def test_converge_raises_when_the_backend_is_unreachable(
        self, driver: HostDriver[K, V]
    ) -> None:
        things = self.examples(1)
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.converge(Update(put=things))
        self.assert_done(driver.converge(Update(put=things)))
        self.assert_so(things)

    @proves_raise(HostDriver, "present", BackendUnavailable)
    def test_present_raises_when_the_backend_is_unreachable(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        driver.converge(Update(put=things))
        with self.outage(), pytest.raises(BackendUnavailable):
            driver.present()
        self.assert_held(driver, things.keys())

    def test_two_driver_objects_work_on_one_host_at_once(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        """Check that both work, or that one waits and works once the other is closed."""
        things = list(self.examples(6).items())
        drivers = make_driver(), make_driver()
        outcomes: list[Outcome[K]] = []
        late: dict[HostDriver[K, V], list[tuple[K, V]]] = {}

        def work(driver: HostDriver[K, V], mine: list[tuple[K, V]]) -> None:
            for number, (key, value) in enumerate(mine):
                try:
                    outcomes.append(driver.converge(Update(put={key: value})))
                except BackendLocked:
                    late[driver] = mine[number:]
                    return

        threads = [
            threading.Thread(target=work, args=(driver, things[number::2]))
            for number, driver in enumerate(drivers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(late) < len(drivers), "each waits for the other"
        for driver, rest in late.items():
            for other in drivers:
                if other is not driver:
                    other.close()
            work(driver, rest)
        assert [outcome.failed for outcome in outcomes] == [{}] * len(things), (
            "two drivers hinder each other"
        )
        self.assert_so(dict(things))
        for driver in drivers:
            self.assert_held(driver, dict(things).keys())
            driver.close()

    def test_closing_leaves_the_machine_as_it_is(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        driver.converge(Update(put=things))
        driver.close()
        driver.close()
        self.assert_so(things)

    @proves(HostDriver, 1, 4)
    def test_an_edge_case_is_applied_or_refused_as_a_whole(self, driver: HostDriver[K, V]) -> None:
        (key, value), (other, plain) = self.examples(2).items()
        for what, awkward in self.edge_cases(value).items():
            outcome = driver.converge(Update(put={key: awkward, other: plain}))
            assert other in outcome.done, f"{what} concerns another key too: {outcome}"
            if key in outcome.done:
                self.assert_so({key: awkward})
            else:
                assert key in outcome.failed, f"{what} is neither done nor failed: {outcome}"
                self.assert_gone({key: awkward})
            self.assert_done(driver.converge(Update(drop=frozenset({key}))))

    def test_an_empty_update_is_nothing(self, driver: HostDriver[K, V]) -> None:
        assert driver.converge(Update()) == Outcome(), "it does something"
