"""The suite of interface drivers refuses every mutation of the fake driver."""

from collections.abc import Collection

import pytest

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.common.promises import promises_of
from netfw.testing.conformance.interface import InterfaceDriverConformance
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.interface import (
    interface_mutations,
    machine_mutations,
    plan_mutations,
    reconciler_mutations,
)
from tests.conformance.interface.fake_interface import (
    FakeInterfaceConformance,
    FakeInterfaceDriver,
)

pytestmark = pytest.mark.fakes

CONTRACTS = Driver, HostDriver, Reconciler, InterfaceDriver
WATCHED = Mutations.merge(
    conduct_mutations("converge"),
    machine_mutations.MUTATIONS,
    plan_mutations.MUTATIONS,
)


class TestInterfaceMutations(MutationChecks):
    SUITE = InterfaceDriverConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = FakeInterfaceDriver
    MUTATIONS = Mutations.merge(
        interface_mutations.MUTATIONS,
        reconciler_mutations.MUTATIONS,
        WATCHED,
    )
    WATCHED = WATCHED
    UNPROVEN = frozenset({CONTRADICTIONS})
    LEAST = 83

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeInterfaceConformance()
        suite.DRIVER = driver
        return run_tests(suite, tests, suite.drivers, ANY_FAULT)


def test_reason_of_an_accepted_name_of_another_port_names_the_conflict() -> None:
    test = "test_a_name_that_another_port_has_is_a_conflict"
    suite = FakeInterfaceConformance()
    suite.DRIVER = interface_mutations.share_device_name.apply(FakeInterfaceDriver)
    refusal = run_tests(suite, {test}, suite.drivers, ANY_FAULT)
    assert "a name of another port is a Conflict, not done: " in refusal.reasons[test]


@pytest.mark.parametrize(("contract", "numbers"), [*zip(CONTRACTS, (7, 9, 7, 7), strict=True)])
def test_numbered_promises_are_parsed(contract: type, numbers: int):
    parsed = {p.what for p in promises_of(contract) if p.where == contract.__name__}
    assert parsed == {str(number) for number in range(1, numbers + 1)}
