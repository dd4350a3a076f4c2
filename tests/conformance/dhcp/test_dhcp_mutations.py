"""The suite of DHCP drivers refuses every mutation of the fake DHCP driver."""

from collections.abc import Collection

import pytest

from netfw.drivers.base import Driver
from netfw.drivers.dhcp import DhcpDriver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.dhcp.case import emptied
from netfw.testing.conformance.dhcp.suite import CONTRACTS, DhcpDriverConformance
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.dhcp import lease_mutations, server_mutations
from tests.conformance.dhcp.fake_dhcp import FakeDhcpDriver
from tests.conformance.dhcp.fake_environment import FakeDhcpEnvironment

pytestmark = pytest.mark.fakes

WATCHED = conduct_mutations("converge")


class TestDhcpMutations(MutationChecks):
    SUITE = DhcpDriverConformance
    CONTRACTS = (*CONTRACTS, Driver, Reconciler)
    BROKEN_CONTRACTS = (Driver, DhcpDriver)
    FAKE = FakeDhcpDriver
    MUTATIONS = Mutations.merge(lease_mutations.MUTATIONS, server_mutations.MUTATIONS, WATCHED)
    WATCHED = WATCHED
    UNPROVEN = frozenset({CONTRADICTIONS})
    LEAST = 79
    INHERITED = False

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = DhcpDriverConformance()

        def drivers():
            environment = FakeDhcpEnvironment(driver)
            return suite.drivers(environment, emptied(environment))

        return run_tests(suite, tests, drivers, ANY_FAULT)


def test_suite_without_environment_is_refused_before_any_test():
    with pytest.raises(TypeError, match="override shared_environment;"):
        type("TestMine", (DhcpDriverConformance,), {})
