"""The suite refuses mechanism drivers that are wrong, each by the right tests."""

from __future__ import annotations

import pytest

from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.server.mechanism import CONTRACTS, MechanismDriverConformance
from tests.conformance.common.refusal import refusals
from tests.conformance.server.broken_mechanism import BROKEN, BrokenMechanism
from tests.conformance.switch.fake_fabric import OnFabric

pytestmark = pytest.mark.fakes


class TestFabric(OnFabric):
    """A driver with a backend that keeps its promises passes."""


def suite_of(driver: type[BrokenMechanism]) -> MechanismDriverConformance:
    class Suite(OnFabric):
        DRIVER = driver

    return Suite()


@pytest.mark.parametrize("driver", BROKEN, ids=lambda driver: driver.__name__)
def test_a_broken_mechanism_is_refused_by_the_right_tests(driver: type[BrokenMechanism]) -> None:
    assert refusals(suite_of(driver)) == driver.refused_by


def test_every_promise_and_every_error_of_a_mechanism_has_a_test() -> None:
    assert unproven(MechanismDriverConformance, *CONTRACTS) == frozenset()


def test_every_test_of_mechanisms_refuses_somebody() -> None:
    tests = {name for name in vars(MechanismDriverConformance) if name.startswith("test_")}
    assert tests == frozenset().union(*(driver.refused_by for driver in BROKEN))
