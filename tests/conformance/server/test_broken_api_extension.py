"""The suite refuses API extensions that are wrong, each by the tests of what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from netfw.drivers.api_extension import ApiExtension
from netfw.testing.conformance.common.promises import unproven
from netfw.testing.conformance.server.api_extension import (
    CONTRACTS,
    ApiExtensionConformance,
    Request,
)
from tests.conformance.common.refusal import refusals
from tests.conformance.server.broken_api_extension import BROKEN, BrokenTaps, Taps

pytestmark = pytest.mark.fakes

PORT = "6f0e1b0c-5d3a-4c62-8f30-7a5a1c1d2e3f"


class TapsSuite(ApiExtensionConformance):
    """What is said of taps, good and bad."""

    extension: type[ApiExtension] = Taps

    def make_extension(self) -> ApiExtension:
        return self.extension()

    def requests(self) -> Sequence[Request]:
        return (
            Request("tap", {"port_id": PORT, "rate": 4}),
            Request("tap", {"port_id": PORT, "rate": 3}, refused="rate"),
            Request("tap", {}, refused="port_id"),
            Request("tap", {"port_id": PORT, "colour": "red"}, refused="colour"),
        )


class TestTaps(TapsSuite):
    """The good one passes."""


@pytest.mark.parametrize("extension", BROKEN, ids=lambda extension: extension.__name__)
def test_a_broken_api_extension_is_refused_by_the_right_tests(
    extension: type[BrokenTaps],
) -> None:
    suite = TapsSuite()
    suite.extension = extension
    assert refusals(suite) == extension.refused_by


def test_every_promise_of_an_api_extension_has_a_test() -> None:
    assert unproven(ApiExtensionConformance, *CONTRACTS) == frozenset()
