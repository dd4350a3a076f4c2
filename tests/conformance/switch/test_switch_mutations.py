"""The suite of switch drivers refuses every mutation of the fake switch driver."""

from collections.abc import Collection

import pytest

from netfw.drivers.reconciler import Reconciler
from netfw.drivers.switch import SwitchDriver
from netfw.testing.conformance.switch.suite import CONTRACTS, SwitchDriverConformance
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.switch.distributed_mutations import MUTATIONS as DISTRIBUTED_MUTATIONS
from tests.conformance.switch.fake_environment import (
    FakeSwitchConformance,
    FakeSwitchEnvironment,
)
from tests.conformance.switch.fake_switch import FakeSwitchDriver
from tests.conformance.switch.shared_mac_mutations import MUTATIONS as OTHER_MUTATIONS
from tests.conformance.switch.sub_port_mutations import MUTATIONS as SUB_PORT_MUTATIONS

pytestmark = pytest.mark.fakes


class TestSwitchMutations(MutationChecks):
    SUITE = SwitchDriverConformance
    CONTRACTS = (*CONTRACTS, Reconciler)
    BROKEN_CONTRACTS = (SwitchDriver,)
    FAKE = FakeSwitchDriver
    MUTATIONS = Mutations.merge(OTHER_MUTATIONS, DISTRIBUTED_MUTATIONS, SUB_PORT_MUTATIONS)
    LEAST = 65
    INHERITED = False
    LEFT_OUT = frozenset({"test_the_cost_of_a_key_does_not_grow_with_the_host"})
    """The fake reads its whole backend."""

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeSwitchConformance()
        suite.DRIVER = driver
        empty = {0: {}, 1: {}}
        return run_tests(
            suite, tests, lambda: suite.drivers(FakeSwitchEnvironment(driver), empty), ANY_FAULT
        )
