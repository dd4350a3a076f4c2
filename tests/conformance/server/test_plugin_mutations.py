"""The suites of core and service plugins accept correct plugins, and refuse every mutation."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from netfw.drivers.base import HostResources
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.testing.conformance.common.promises import numbered_promises
from netfw.testing.conformance.server import core_plugin, service_plugin
from netfw.testing.conformance.server.core_plugin import CorePluginConformance
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutation_checks import CONTRADICTIONS, MutationChecks
from tests.conformance.common.mutations import Mutations
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.server.fake_service_plugin import (
    FakeServicePlugin,
    FakeServicePluginConformance,
)
from tests.conformance.server.plugin_mutations import CORE, RESOURCE, SERVICE, VALIDATION

pytestmark = pytest.mark.fakes

WATCHED = conduct_mutations("create")


class Ml2Conformance(CorePluginConformance):
    """The suite; ``DRIVER`` is the class of the plugins under test."""

    DRIVER: type[Ml2Plugin] = Ml2Plugin

    def make_plugin(self, host: HostResources) -> Ml2Plugin:
        return self.DRIVER.from_conf({}, host)


@pytest.mark.spec("DRV-31")
class TestMl2Plugin(Ml2Conformance):
    """netfw's own core plugin."""


@pytest.mark.spec("DRV-31")
class TestFakeServicePlugin(FakeServicePluginConformance):
    """A plugin with everything that the suite asks for."""


class TestCorePluginMutations(MutationChecks):
    SUITE = CorePluginConformance
    CONTRACTS = BROKEN_CONTRACTS = core_plugin.CONTRACTS
    FAKE = Ml2Plugin
    WATCHED = WATCHED
    MUTATIONS = Mutations.merge(RESOURCE, CORE, WATCHED)
    LEAST = 40
    UNPROVEN = frozenset({CONTRADICTIONS})

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = Ml2Conformance()
        suite.DRIVER = driver
        return run_tests(suite, tests, refusing=ANY_FAULT)


class TestServicePluginMutations(MutationChecks):
    SUITE = service_plugin.ServicePluginConformance
    CONTRACTS = BROKEN_CONTRACTS = service_plugin.CONTRACTS
    FAKE = FakeServicePlugin
    WATCHED = Mutations.merge(WATCHED, VALIDATION)
    MUTATIONS = Mutations.merge(RESOURCE, SERVICE, WATCHED)
    LEAST = 42
    UNPROVEN = numbered_promises(ServicePlugin, 5) | {CONTRADICTIONS}

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeServicePluginConformance()
        suite.DRIVER = driver
        return run_tests(suite, tests, refusing=ANY_FAULT)
