"""The suite refuses extension drivers that are wrong, each by the tests of what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from netfw.drivers.extension_driver import ExtensionDriver
from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.server.extension_driver import (
    CONTRACTS,
    NETWORK,
    PORT,
    Example,
    ExtensionDriverConformance,
)
from tests.conformance.common.refusal import refusals
from tests.conformance.server.broken_extension_driver import (
    BROKEN,
    COLOUR,
    OFF,
    BrokenExtension,
    Painter,
    PlainPainter,
)

pytestmark = pytest.mark.fakes


class PainterSuite(ExtensionDriverConformance):
    """What is said of painters, good and bad."""

    driver: type[ExtensionDriver] = Painter

    def make_driver(self) -> ExtensionDriver:
        return self.driver()

    def examples(self) -> Sequence[Example]:
        return (
            Example(made=NETWORK, kept={COLOUR: "grey"}),
            Example(made=NETWORK, asked={COLOUR: "red"}, kept={COLOUR: "red"}),
            Example(made=PORT, kept={COLOUR: "grey"}, shaped={"port_security": True}),
            Example(
                made=PORT,
                asked={COLOUR: "red", OFF: False},
                kept={COLOUR: "red"},
                shaped={"port_security": False},
            ),
        )

    def impossible(self) -> Example | None:
        return Example(made=PORT, asked={COLOUR: "black"})


class TestPainter(PainterSuite):
    """The good one passes."""


class TestPlainPainter(PainterSuite):
    """And the one that leaves keeping to the contract."""

    driver = PlainPainter


@pytest.mark.parametrize("driver", BROKEN, ids=lambda driver: driver.__name__)
def test_a_broken_extension_driver_is_refused_by_the_right_tests(
    driver: type[BrokenExtension],
) -> None:
    suite = PainterSuite()
    suite.driver = driver
    assert refusals(suite) == driver.refused_by


def test_every_promise_and_every_error_of_an_extension_driver_has_a_test() -> None:
    assert unproven(ExtensionDriverConformance, *CONTRACTS) == frozenset()
