"""The mechanism drivers without a backend: what the logger says, and what neither binds."""

from __future__ import annotations

import logging

import pytest
from attrs import evolve

from netfw.drivers.mechanism import Refused
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw_drivers.null.mechanism import (
    L2PopulationMechanismDriver,
    LoggerMechanismDriver,
    told,
)

RENAMED = evolve(samples.NETWORK, name="green", mtu=1400, revision=2)


def test_a_change_is_told_in_a_line_without_anybodys_text() -> None:
    about = f"network {samples.NETWORK.id}"
    lines = {
        told(samples.change(None, samples.NETWORK)): "is new, revision 1",
        told(samples.change(samples.NETWORK, RENAMED)): "has another name, mtu, revision 2",
        told(samples.change(samples.NETWORK, samples.NETWORK)): "is as it was, revision 1",
        told(samples.change(RENAMED, None)): "is gone, revision 2",
        told(evolve(samples.change(RENAMED, None), request_id="req-1")): (
            "is gone, revision 2 (request req-1)"
        ),
    }
    for line, expected in lines.items():
        assert line == f"{about} {expected}"


def test_what_may_be_rolled_back_is_for_debugging_and_what_happened_is_information(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver, change = LoggerMechanismDriver(), samples.change(None, samples.PORT)
    with caplog.at_level(logging.DEBUG):
        driver.validate(change)
        driver.bind(samples.request(samples.PORT, segments=samples.SEGMENTS))
        driver.deliver(change)
    assert [record.levelno for record in caplog.records] == [
        logging.DEBUG, logging.DEBUG, logging.INFO,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [LoggerMechanismDriver, L2PopulationMechanismDriver])
def test_they_leave_binding_to_others_and_say_so(
    kind: type[LoggerMechanismDriver] | type[L2PopulationMechanismDriver],
) -> None:
    answer = kind().bind(samples.request(samples.PORT, samples.AGENT, segments=samples.SEGMENTS))
    assert isinstance(answer, Refused)
    assert "binds no ports" in answer.reason
