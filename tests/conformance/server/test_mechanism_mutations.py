"""The suite of mechanism drivers refuses every mutation of the fake mechanism driver."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from netfw.drivers.server.change import Change
from netfw.model.resource import Kind
from netfw.testing.conformance.server.mechanism import CONTRACTS, MechanismDriverConformance
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.server.fake_mechanism import FakeMechanismConformance
from tests.conformance.server.mechanism_mutations import MUTATIONS, WATCHED, FakeMechanismDriver

pytestmark = pytest.mark.fakes

VALUES = ("BindingRequest(", "Change(", "Network(", "Port(", "Subnet(")
"""Beginnings of values, which no reason consists of."""


class TestFakeFabric(FakeMechanismConformance):
    """The driver of the fake fabric passes."""


class PortsOnlyDriver(FakeMechanismDriver):
    """Carries ports, and nothing of networks and subnets."""

    VERSION = 2

    def deliver(self, change: Change) -> None:
        if change.ref.kind is Kind.PORT:
            super().deliver(change)


class TestPortsOnlyFabric(FakeMechanismConformance):
    """A driver that carries ports only passes, and reports outages for ports."""

    DRIVER = PortsOnlyDriver

    def undeliverable(self) -> Change | None:
        return None


class TestMechanismMutations(MutationChecks):
    SUITE = MechanismDriverConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = FakeMechanismDriver
    MUTATIONS = Mutations.merge(MUTATIONS, WATCHED)
    WATCHED = WATCHED
    UNPROVEN = frozenset({CONTRADICTIONS})
    LEAST = 45

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeMechanismConformance()
        suite.DRIVER = driver
        return run_tests(suite, tests, refusing=ANY_FAULT)

    @pytest.mark.nightly
    def test_reasons_begin_with_what_is_wrong_and_not_with_a_value(self) -> None:
        tests, broken = self.suite_tests(), 0
        for mutation in MUTATIONS:
            reasons = self.run_suite(mutation.apply(self.FAKE), tests).reasons
            values = [each for each in reasons.values() if each.startswith(VALUES)]
            assert not values, f"{mutation.name}: {values[0][:100]}"
            broken += bool(reasons)
        assert broken == len(MUTATIONS)
