"""The suite refuses drivers of address management that are wrong, each by the right tests."""

from __future__ import annotations

import pytest

from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.server.ipam import CONTRACTS, IpamDriverConformance
from tests.conformance.common.refusal import refusals
from tests.conformance.server.broken_ipam import BROKEN, DROPPED, BrokenIpam
from tests.conformance.server.external_ipam import Elsewhere, KeepsWhatIsDropped

pytestmark = pytest.mark.fakes


class TestElsewhere(Elsewhere):
    """A driver that keeps its books outside the database passes."""


def test_a_driver_that_never_forgets_a_subnet_is_refused() -> None:
    class Suite(Elsewhere):
        DRIVER = KeepsWhatIsDropped

    assert refusals(Suite()) == {DROPPED}


def suite_of(driver: type[BrokenIpam]) -> IpamDriverConformance:
    class Suite(IpamDriverConformance):
        def make_driver(self) -> BrokenIpam:
            return driver()

    return Suite()


@pytest.mark.parametrize("driver", BROKEN, ids=lambda driver: driver.__name__)
def test_a_broken_ipam_driver_is_refused_by_the_right_tests(driver: type[BrokenIpam]) -> None:
    assert refusals(suite_of(driver)) == driver.refused_by


def test_every_promise_and_every_error_of_an_ipam_driver_has_a_test() -> None:
    assert unproven(IpamDriverConformance, *CONTRACTS) == frozenset()


def test_every_test_of_ipam_drivers_refuses_somebody() -> None:
    tests = {name for name in vars(IpamDriverConformance) if name.startswith("test_")}
    assert tests == frozenset().union(*(driver.refused_by for driver in BROKEN))
