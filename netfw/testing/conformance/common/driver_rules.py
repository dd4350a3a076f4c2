"""Tests of the promises of every `Driver`, for suites of drivers that change no host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from netfw.drivers.base import Driver
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.common.required_hooks import RequiresHooks
from netfw.testing.conformance.watch.held_resources import ROUNDS, growth, read_held_resources
from netfw.testing.conformance.watch.secret_options import assert_secrets_are_declared

MakeAny = Callable[[], Driver]


class DriverConformance(RequiresHooks):
    """What every `Driver` leaves alone; a suite overrides `maker` and `use`."""

    def maker(self) -> AbstractContextManager[MakeAny]:
        """Return a context with a factory of drivers."""
        raise NotImplementedError("a suite overrides `maker`")

    def use(self, driver: Driver) -> None:
        """Make the calls by which a driver may come to hold something."""
        raise NotImplementedError("a suite overrides `use`")

    @proves(Driver, 1)
    def test_a_description_is_constant_and_touches_nothing(self) -> None:
        with self.maker() as make:
            one, other = make(), make()
            for driver in (one, other, one):
                assert driver.describe() == one.describe(), (
                    f"promise 1 of Driver: two descriptions differ: {driver.describe()}"
                )

    @proves(Driver, 2)
    def test_problems_are_sentences(self) -> None:
        with self.maker() as make:
            make().problems()

    @proves(Driver, 3)
    def test_a_closed_driver_holds_nothing(self) -> None:
        with self.maker() as make:
            before = None
            for _ in range(ROUNDS + 1):
                driver = make()
                self.use(driver)
                driver.problems()
                driver.close()
                driver.close()
                before = before or read_held_resources()
            assert before is not None
            left = list(growth(before, read_held_resources(), ROUNDS))
        assert not left, f"promise 3 of Driver, after close(): {'; '.join(left)}"

    @proves(Driver, 4, 5, 6)
    def test_a_used_driver_keeps_the_rules_of_every_call(self) -> None:
        """Make the calls of a driver; what surrounds each call is watched by itself."""
        with self.maker() as make:
            one, other = make(), make()
            for driver in (one, other, one):
                self.use(driver)
                driver.problems()

    @proves(Driver, 7)
    def test_options_with_secrets_are_declared_as_secret(self) -> None:
        with self.maker() as make:
            assert_secrets_are_declared(make())
