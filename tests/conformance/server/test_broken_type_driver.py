"""The suite refuses type drivers that are wrong, each by the tests that are about what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from netfw.model.segment import NetworkType, Provider
from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.server.type_driver import CONTRACTS, TypeDriverConformance
from tests.conformance.common.refusal import refusals
from tests.conformance.server.broken_type_driver import BROKEN, BrokenType

pytestmark = pytest.mark.fakes


def vlan(number: int | None, physnet: str) -> Provider:
    return Provider(network_type=NetworkType.VLAN, segmentation_id=number, physical_network=physnet)


def suite_of(driver: type[BrokenType]) -> TypeDriverConformance:
    class Suite(TypeDriverConformance):
        def make_driver(self) -> BrokenType:
            return driver()

        def requests(self) -> tuple[Provider, Provider]:
            return vlan(10, "physnet1"), vlan(12, "physnet2")

        def impossible(self) -> Mapping[Provider, frozenset[str]]:
            return {vlan(10, "physnet3"): frozenset({"physical_network"})}

        def mtus(self) -> Mapping[str | None, int]:
            return {"physnet1": 1500}

    return Suite()


@pytest.mark.parametrize("driver", BROKEN, ids=lambda driver: driver.__name__)
def test_a_broken_type_driver_is_refused_by_the_right_tests(driver: type[BrokenType]) -> None:
    assert refusals(suite_of(driver)) == driver.refused_by


def test_every_promise_and_every_error_of_a_type_driver_has_a_test() -> None:
    assert unproven(TypeDriverConformance, *CONTRACTS) == frozenset()


def test_every_test_of_type_drivers_refuses_somebody() -> None:
    tests = {name for name in vars(TypeDriverConformance) if name.startswith("test_")}
    assert tests == frozenset().union(*(driver.refused_by for driver in BROKEN))
