"""Tests of drivers that may know and observe their host without the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler, no_checkpoint
from netfw.errors import BackendUnavailable
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves_raise
from netfw.testing.conformance.common.reconciler import ReconcilerConformance

K = TypeVar("K")
V = TypeVar("V")


class BackendOptionalConformance(ReconcilerConformance[K, V]):
    """The laws of a reconciler whose reads may succeed while the backend is unreachable.

    The environment makes drivers and kills them.
    """

    environment: Any

    @proves_raise(HostDriver, "present", BackendUnavailable)
    def test_present_raises_when_the_backend_is_unreachable(self, driver: HostDriver[K, V]) -> None:
        """Accept the right keys as well: a driver may know them without the backend."""
        things = self.examples(1)
        driver.converge(Update(put=things))
        with self.outage():
            try:
                present = driver.present()
            except BackendUnavailable:
                present = frozenset(things)
        assert present == frozenset(things), "`present` is not what the host has"

    @proves_raise(Reconciler, "observe", BackendUnavailable)
    def test_observe_raises_when_the_backend_is_unreachable(self, driver: HostDriver[K, V]) -> None:
        """Accept a true observation as well: what is missing is planned, and `apply` raises."""
        reconciler = self.reconciler(driver)
        missing = Update(put=self.examples(1))
        with self.outage():
            for scope in (None, missing):
                try:
                    observed = reconciler.observe(scope)
                except BackendUnavailable:
                    continue
                plan = reconciler.plan(missing, observed)
                assert plan, "what is missing is observed as present while the backend is away"
                with pytest.raises(BackendUnavailable):
                    reconciler.apply(plan, no_checkpoint)

    def test_two_driver_objects_work_on_one_host_at_once(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        former: list[HostDriver[K, V]] = []

        def make() -> HostDriver[K, V]:
            former.append(self.environment.make_driver() if former else make_driver())
            return former[-1]

        super().test_two_driver_objects_work_on_one_host_at_once(make)
        for driver in former:
            self.environment.killed(driver)
