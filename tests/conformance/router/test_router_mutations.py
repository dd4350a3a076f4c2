"""The suite of router drivers refuses every mutation of the fake router driver."""

from collections.abc import Collection

import pytest

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_values import RouterState
from netfw.testing.conformance.common.promises import proofs_in
from netfw.testing.conformance.router.case import emptied
from netfw.testing.conformance.router.distributed import RouterDistributedConformance
from netfw.testing.conformance.router.suite import CONTRACTS, RouterDriverConformance
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.router.distributed_mutations import MUTATIONS as DISTRIBUTED_MUTATIONS
from tests.conformance.router.fake_distributed_router import FakeDistributedRouterDriver
from tests.conformance.router.fake_environment import FakeRouterEnvironment
from tests.conformance.router.forwarding_mutations import MUTATIONS as FORWARDING_MUTATIONS
from tests.conformance.router.ha_mutations import MUTATIONS as HA_MUTATIONS
from tests.conformance.router.prefix_mutations import MUTATIONS as PREFIX_MUTATIONS
from tests.conformance.router.router_mutations import MUTATIONS as OTHER_MUTATIONS

pytestmark = pytest.mark.fakes


class TestRouterMutations(MutationChecks):
    SUITE = RouterDriverConformance
    CONTRACTS = (*CONTRACTS, Reconciler)
    BROKEN_CONTRACTS = (RouterDriver,)
    FAKE = FakeDistributedRouterDriver
    MUTATIONS = Mutations.merge(
        FORWARDING_MUTATIONS,
        OTHER_MUTATIONS,
        HA_MUTATIONS,
        DISTRIBUTED_MUTATIONS,
        PREFIX_MUTATIONS,
    )
    LEAST = 110
    INHERITED = False

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = RouterDriverConformance()

        def drivers():
            environment = FakeRouterEnvironment(driver)
            return suite.drivers(environment, emptied(environment))

        return run_tests(suite, tests, drivers, ANY_FAULT)

    def test_driver_of_plain_routers_passes_and_skips_the_tests_of_others(self) -> None:
        class PlainDriver(FakeDistributedRouterDriver):
            VERSION = 2

            def describe(self):
                return DriverInfo("plain", {HostCapability.PLAN, HostCapability.WATCH})

            def supports(self, value):
                plain = not isinstance(value, RouterState) or not (value.full and value.full.ha)
                return plain and super().supports(value)

        refusal = self.run_suite(PlainDriver, self.suite_tests())
        assert not refusal.refusing
        distributed = {name for name, _ in proofs_in(RouterDistributedConformance)}
        assert distributed <= refusal.skipped
        assert "test_a_prefix_is_requested_for_each_subnet" in refusal.skipped
        assert "test_what_the_driver_does_not_declare_is_refused" not in refusal.skipped


def test_suite_without_environment_is_refused_before_any_test():
    with pytest.raises(TypeError, match="override shared_environment;"):
        type("TestMine", (RouterDriverConformance,), {})
