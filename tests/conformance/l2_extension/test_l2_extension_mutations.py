"""The suite of L2 extensions refuses every mutation of the extension for QoS."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Driver
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.errors import ConfigError, NetfwError
from netfw.testing.conformance.l2_extension import L2ExtensionConformance
from tests.conformance.common.extension_mutations import WATCHED
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.conformance.l2_extension.l2_extension_mutations import (
    MUTATIONS,
    FakeL2Extension,
)
from tests.conformance.l2_extension.test_qos import RULES, view

pytestmark = [pytest.mark.fakes, pytest.mark.spec("L2-80")]

OF_THE_AGENT = breaks(AgentExtension, 4, 5) | breaks(L2Extension, 1)
"""When the extension is called, and what follows a failed call, is up to the agent."""
IMPOSSIBLE = breaks_raise(AgentExtension, "contribute", NetfwError) | breaks_raise(
    AgentExtension, "contribute_base", ConfigError
)
"""Which contributions are impossible, no suite knows."""


class FakeL2ExtensionConformance(L2ExtensionConformance):
    """The suite on two limited ports; ``extension`` is the class of the extensions."""

    extension: type[L2Extension] = FakeL2Extension

    def make_extension(self) -> L2Extension:
        return self.extension()

    def ports(self) -> Sequence[ExtendedPort]:
        return [view(2, *RULES), view(3, *RULES[:3])]


class TestFakeL2Extension(FakeL2ExtensionConformance):
    """The extension without a change passes."""


class TestL2ExtensionMutations(MutationChecks):
    SUITE = L2ExtensionConformance
    CONTRACTS = BROKEN_CONTRACTS = (Driver, AgentExtension, L2Extension)
    FAKE = FakeL2Extension
    MUTATIONS = Mutations.merge(MUTATIONS, WATCHED)
    WATCHED = WATCHED
    UNPROVEN = OF_THE_AGENT | IMPOSSIBLE | {CONTRADICTIONS}
    LEAST = 42

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeL2ExtensionConformance()
        suite.extension = driver
        return run_tests(suite, tests)
