"""The suite of L3 extensions refuses every mutation of a fake extension."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Driver
from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.errors import ConfigError, NetfwError
from netfw.model.router import Router
from netfw.testing.conformance.l3_extension import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site
from tests.conformance.common.extension_mutations import WATCHED
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.conformance.l3_extension.l3_extension_mutations import (
    MUTATIONS,
    FakeL3Extension,
)

pytestmark = pytest.mark.fakes

SITES = tuple(make_site() for _ in range(2))
OF_THE_AGENT = breaks(AgentExtension, 4, 5) | breaks(L3Extension, 1, 2)
"""When the extension is called, what follows a failed call, and the end of a contribution, are up
to the agent and the router driver."""
IMPOSSIBLE = breaks_raise(AgentExtension, "contribute", NetfwError) | breaks_raise(
    AgentExtension, "contribute_base", ConfigError
)
"""Which contributions are impossible, no suite knows."""


class FakeL3ExtensionConformance(L3ExtensionConformance):
    """The suite on two routers; ``extension`` is the class of the extensions."""

    extension: type[L3Extension] = FakeL3Extension

    def make_extension(self) -> L3Extension:
        return self.extension()

    def routers(self) -> Sequence[ExtendedRouter]:
        return [ExtendedRouter(router=Router(id=each.router), state=each.state) for each in SITES]


class TestFakeL3Extension(FakeL3ExtensionConformance):
    """The correct extension passes."""


class TestL3ExtensionMutations(MutationChecks):
    SUITE = L3ExtensionConformance
    CONTRACTS = BROKEN_CONTRACTS = (Driver, AgentExtension, L3Extension)
    FAKE = FakeL3Extension
    MUTATIONS = Mutations.merge(MUTATIONS, WATCHED)
    WATCHED = WATCHED
    UNPROVEN = OF_THE_AGENT | IMPOSSIBLE | {CONTRADICTIONS}
    LEAST = 38

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeL3ExtensionConformance()
        suite.extension = driver
        return run_tests(suite, tests)
