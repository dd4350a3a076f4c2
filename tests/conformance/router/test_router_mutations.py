"""The suite of router drivers refuses every mutation of the fake router driver."""

from collections.abc import Collection

import pytest

from netfw.drivers.reconciler import Reconciler
from netfw.drivers.router import RouterDriver
from netfw.testing.conformance.router.case import emptied
from netfw.testing.conformance.router.suite import CONTRACTS, RouterDriverConformance
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.router.fake_environment import FakeRouterEnvironment
from tests.conformance.router.fake_router import FakeRouterDriver
from tests.conformance.router.forwarding_mutations import MUTATIONS as FORWARDING_MUTATIONS
from tests.conformance.router.ha_mutations import MUTATIONS as HA_MUTATIONS
from tests.conformance.router.router_mutations import MUTATIONS as OTHER_MUTATIONS

pytestmark = pytest.mark.fakes


class TestRouterMutations(MutationChecks):
    SUITE = RouterDriverConformance
    CONTRACTS = (*CONTRACTS, Reconciler)
    BROKEN_CONTRACTS = (RouterDriver,)
    FAKE = FakeRouterDriver
    MUTATIONS = Mutations.merge(FORWARDING_MUTATIONS, OTHER_MUTATIONS, HA_MUTATIONS)
    LEAST = 60
    INHERITED = False

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = RouterDriverConformance()

        def drivers():
            environment = FakeRouterEnvironment(driver)
            return suite.drivers(environment, emptied(environment))

        return run_tests(suite, tests, drivers, ANY_FAULT)


def test_suite_without_environment_is_refused_before_any_test():
    with pytest.raises(TypeError, match="override shared_environment;"):
        type("TestMine", (RouterDriverConformance,), {})
