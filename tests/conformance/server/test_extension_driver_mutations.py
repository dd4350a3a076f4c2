"""The suite of extension drivers refuses every mutation of the fake extension driver."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.testing.conformance.server.extension_driver import (
    CONTRACTS,
    NETWORK,
    PORT,
    Example,
    ExtensionDriverConformance,
)
from tests.conformance.common.mutation_checks import MutationChecks
from tests.conformance.common.suite_runner import Refusal, run_tests
from tests.conformance.server.extension_driver_mutations import (
    COLOUR,
    MUTATIONS,
    OFF,
    FakeExtensionDriver,
    Painter,
    PlainPainter,
)

pytestmark = pytest.mark.fakes


class FakeExtensionConformance(ExtensionDriverConformance):
    """The suite on painters; ``driver`` is their class."""

    driver: type[ExtensionDriver] = Painter

    def make_driver(self) -> ExtensionDriver:
        return self.driver()

    def examples(self) -> Sequence[Example]:
        return (
            Example(resource=NETWORK, kept={COLOUR: "grey"}),
            Example(resource=NETWORK, requested={COLOUR: "red"}, kept={COLOUR: "red"}),
            Example(resource=PORT, kept={COLOUR: "grey"}, shaped={"port_security": True}),
            Example(
                resource=PORT,
                requested={COLOUR: "red", OFF: False},
                kept={COLOUR: "red"},
                shaped={"port_security": False},
            ),
        )

    def impossible(self) -> Example | None:
        return Example(resource=PORT, requested={COLOUR: "black"})


class TestPainter(FakeExtensionConformance):
    """The painter passes."""


class TestPlainPainter(FakeExtensionConformance):
    """A painter that leaves storing to the contract passes too."""

    driver = PlainPainter


class TestExtensionDriverMutations(MutationChecks):
    SUITE = ExtensionDriverConformance
    CONTRACTS = BROKEN_CONTRACTS = CONTRACTS
    FAKE = FakeExtensionDriver
    MUTATIONS = MUTATIONS
    LEAST = 17

    def run_suite(self, driver: type, tests: Collection[str]) -> Refusal:
        suite = FakeExtensionConformance()
        suite.driver = driver
        return run_tests(suite, tests)
