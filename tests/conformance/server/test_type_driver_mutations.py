"""The suite of type drivers refuses every mutation of the VLAN type driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from netfw.drivers.server.type_driver import AllocationStore
from netfw.errors import Conflict
from netfw.model.segment import NetworkType, Provider
from netfw.testing.conformance.server.type_driver import CONTRACTS, TypeDriverConformance
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.server.type_driver_mutations import MUTATIONS, WATCHED, FakeTypeDriver

pytestmark = pytest.mark.fakes


def vlan(number: int | None, physnet: str) -> Provider:
    return Provider(network_type=NetworkType.VLAN, segmentation_id=number, physical_network=physnet)


class FakeTypeConformance(TypeDriverConformance):
    """The suite on drivers of the class ``DRIVER``."""

    DRIVER: type[FakeTypeDriver] = FakeTypeDriver

    def make_driver(self) -> FakeTypeDriver:
        return self.DRIVER()

    def requests(self) -> tuple[Provider, Provider]:
        return vlan(10, "physnet1"), vlan(12, "physnet2")

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        return {vlan(10, "physnet3"): frozenset({"physical_network"})}

    def mtus(self) -> Mapping[str | None, int]:
        return {"physnet1": 1500}


class TestTypeDriverMutations(MutationChecks):
    SUITE = TypeDriverConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = FakeTypeDriver
    MUTATIONS = Mutations.merge(MUTATIONS, WATCHED)
    WATCHED = WATCHED
    WATCHED_ALWAYS = True
    UNPROVEN = frozenset({CONTRADICTIONS})
    LEAST = 35

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeTypeConformance()
        suite.DRIVER = driver
        return run_tests(suite, tests, refusing=ANY_FAULT)


class ConflictWhenExhausted(FakeTypeDriver):
    """A driver that reports a conflict when no segment is left, as ``reserve`` does."""

    def allocate(self, store: AllocationStore) -> Provider:
        found = super().allocate(store)
        if found is None:
            raise Conflict("no VLAN is left")
        return found


class NeverExhausted(FakeTypeDriver):
    """A driver that returns a segment without a number when none is left."""

    def allocate(self, store: AllocationStore) -> Provider:
        return super().allocate(store) or Provider(network_type=NetworkType.VLAN)


@pytest.mark.parametrize("driver", [ConflictWhenExhausted, NeverExhausted])
def test_driver_that_never_returns_none_is_refused_and_does_not_hang_the_suite(
    driver: type[FakeTypeDriver],
) -> None:
    suite = FakeTypeConformance()
    suite.DRIVER = driver
    with pytest.raises(AssertionError):
        suite.test_many_at_once_get_different_segments()
