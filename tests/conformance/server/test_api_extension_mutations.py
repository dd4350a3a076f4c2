"""The suite of API extensions refuses every mutation of the fake API extension."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from netfw.drivers.server.api_extension import ApiExtension
from netfw.testing.conformance.server.api_extension import (
    CONTRACTS,
    ApiExtensionConformance,
    CreateRequest,
)
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.server.api_extension_mutations import MUTATIONS, WATCHED, Taps

pytestmark = pytest.mark.fakes

PORT = "6f0e1b0c-5d3a-4c62-8f30-7a5a1c1d2e3f"


class FakeApiExtensionConformance(ApiExtensionConformance):
    """The suite on taps; ``extension`` is their class."""

    extension: type[ApiExtension] = Taps

    def make_extension(self) -> ApiExtension:
        return self.extension()

    def requests(self) -> Sequence[CreateRequest]:
        return (
            CreateRequest("tap", {"port_id": PORT, "rate": 4}),
            CreateRequest("tap", {"port_id": PORT, "rate": 3}, refused="rate"),
            CreateRequest("tap", {}, refused="port_id"),
            CreateRequest("tap", {"port_id": PORT, "colour": "red"}, refused="colour"),
        )


class TestTaps(FakeApiExtensionConformance):
    """The fake extension passes."""


class TestApiExtensionMutations(MutationChecks):
    SUITE = ApiExtensionConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = Taps
    MUTATIONS = Mutations.merge(MUTATIONS, WATCHED)
    WATCHED = WATCHED
    UNPROVEN = frozenset({CONTRADICTIONS})
    LEAST = 28

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeApiExtensionConformance()
        suite.extension = driver
        return run_tests(suite, tests, refusing=ANY_FAULT)
