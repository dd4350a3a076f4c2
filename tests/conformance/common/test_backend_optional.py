"""What the suite of drivers that may work without their backend accepts and refuses."""

from __future__ import annotations

import pytest

from netfw.testing.conformance.common.backend_optional import BackendOptionalConformance
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, run_tests
from tests.conformance.interface.fake_interface import (
    FakeInterfaceConformance,
    FakeInterfaceDriver,
    Observed,
)

pytestmark = pytest.mark.fakes

MUTATIONS = Mutations()
OBSERVE = "test_observe_raises_when_the_backend_is_unreachable"
PRESENT = "test_present_raises_when_the_backend_is_unreachable"


class OptionalBackend(BackendOptionalConformance, FakeInterfaceConformance):
    """The suite on the fake interface driver."""


def refused(driver: type, test: str) -> bool:
    suite = OptionalBackend()
    suite.DRIVER = driver
    refusal = run_tests(suite, {test}, suite.drivers, ANY_FAULT)
    assert not refusal.skipped
    return bool(refusal.refusing)


@MUTATIONS.override("observe")
def observe_without_backend(driver, _, scope):
    """Observe from a mirror; what is missing is missing."""
    return Observed(dict(driver.backend.devices), frozenset(), frozenset({None}))


@MUTATIONS.override("present")
def report_mirrored_keys(driver, _):
    """Return the right keys without the backend."""
    return frozenset(driver.backend.devices)


@MUTATIONS.override("observe")
def observe_desired_state(driver, original, scope):
    """Observe what is desired as present, while the backend is unreachable."""
    if driver.backend.online or scope is None:
        return original(scope)
    return Observed(dict(scope.put), frozenset(), frozenset({None}))


@MUTATIONS.override("observe", on=observe_without_backend)
def apply_without_backend(driver, original, scope):
    """Observe and apply without the backend, and lose what is applied."""
    return original(scope)


@apply_without_backend.also("apply")
def _(driver, _, plan, checkpoint):
    for stage in plan.stages:
        checkpoint(stage)


@MUTATIONS.override("observe")
def raise_another_error(driver, original, scope):
    """Raise an error that the contract does not have."""
    if not driver.backend.online:
        raise OSError("no such file")
    return original(scope)


@MUTATIONS.override("present")
def report_no_key(driver, original):
    """Return no key while the backend is unreachable."""
    return original() if driver.backend.online else frozenset()


@pytest.mark.parametrize(
    ("name", "test"),
    [("observe_without_backend", OBSERVE), ("report_mirrored_keys", PRESENT)],
)
def test_driver_that_knows_the_truth_without_the_backend_is_accepted(name: str, test: str) -> None:
    assert not refused(FakeInterfaceDriver, test)
    assert not refused(MUTATIONS[name].apply(FakeInterfaceDriver), test)


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("observe_desired_state", OBSERVE),
        ("apply_without_backend", OBSERVE),
        ("raise_another_error", OBSERVE),
        ("report_no_key", PRESENT),
    ],
)
def test_driver_that_errs_without_the_backend_is_refused(name: str, test: str) -> None:
    assert refused(MUTATIONS[name].apply(FakeInterfaceDriver), test)
