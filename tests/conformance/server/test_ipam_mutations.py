"""The suite of IPAM drivers refuses every mutation of the built-in driver."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from netfw.testing.conformance.server.ipam import CONTRACTS, IpamDriverConformance
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.conformance.server.external_ipam import ExternalIpam, ExternalIpamConformance
from tests.conformance.server.ipam_mutations import MUTATIONS, FakeIpamDriver

pytestmark = pytest.mark.fakes


class FakeIpamConformance(IpamDriverConformance):
    """The suite on drivers of the class ``DRIVER``."""

    DRIVER: type[FakeIpamDriver] = FakeIpamDriver

    def make_driver(self) -> FakeIpamDriver:
        return self.DRIVER()


class TestIpamMutations(MutationChecks):
    SUITE = IpamDriverConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = FakeIpamDriver
    MUTATIONS = MUTATIONS
    LEAST = 18

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeIpamConformance()
        suite.DRIVER = driver
        return run_tests(suite, tests)


class TestExternalIpam(ExternalIpamConformance):
    """A driver that allocates outside the database passes."""


def test_external_driver_that_keeps_a_dropped_subnet_is_refused() -> None:
    class KeepsDroppedSubnet(ExternalIpam):
        VERSION = 2

        def drop_subnet(self, subnet, store) -> None:
            pass

    suite = ExternalIpamConformance()
    suite.DRIVER = KeepsDroppedSubnet
    tests = [name for name in dir(suite) if name.startswith("test_")]
    refused = {"test_a_subnet_that_is_dropped_is_forgotten_and_no_other"}
    assert run_tests(suite, tests).refusing == refused
