"""The suite of metadata drivers refuses every mutation of the fake metadata driver."""

from collections.abc import Collection

import pytest

from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.reconciler import Reconciler
from netfw.testing.conformance.metadata.suite import CONTRACTS, MetadataDriverConformance
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.metadata.fake_metadata import FakeMetadataConformance, FakeMetadataDriver
from tests.conformance.metadata.metadata_mutations import MUTATIONS

pytestmark = pytest.mark.fakes


class TestMetadataMutations(MutationChecks):
    SUITE = MetadataDriverConformance
    CONTRACTS = (*CONTRACTS, Reconciler)
    BROKEN_CONTRACTS = (MetadataDriver,)
    FAKE = FakeMetadataDriver
    MUTATIONS = MUTATIONS
    LEAST = 21
    INHERITED = False

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeMetadataConformance()
        suite.DRIVER = driver
        return run_tests(suite, tests, suite.drivers, ANY_FAULT)
