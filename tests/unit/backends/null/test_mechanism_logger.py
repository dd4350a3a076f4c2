"""The mechanism drivers without a backend: what the logger says, and what neither binds."""

from __future__ import annotations

import logging

import pytest
from attrs import evolve

from netfw.drivers.mechanism import Refused
from netfw.testing.conformance.server import mechanism_samples as scene
from netfw_drivers.null.mechanism import (
    L2PopulationMechanismDriver,
    LoggerMechanismDriver,
    told,
)

RENAMED = evolve(scene.NETWORK, name="green", mtu=1400, revision=2)


def test_a_change_is_told_in_a_line_without_anybodys_text() -> None:
    about = f"network {scene.NETWORK.id}"
    lines = {
        told(scene.change(None, scene.NETWORK)): "is new, revision 1",
        told(scene.change(scene.NETWORK, RENAMED)): "has another name, mtu, revision 2",
        told(scene.change(scene.NETWORK, scene.NETWORK)): "is as it was, revision 1",
        told(scene.change(RENAMED, None)): "is gone, revision 2",
        told(evolve(scene.change(RENAMED, None), request_id="req-1")): (
            "is gone, revision 2 (request req-1)"
        ),
    }
    for line, expected in lines.items():
        assert line == f"{about} {expected}"


def test_what_may_be_rolled_back_is_for_debugging_and_what_happened_is_information(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver, change = LoggerMechanismDriver(), scene.change(None, scene.PORT)
    with caplog.at_level(logging.DEBUG):
        driver.validate(change)
        driver.bind(scene.request(scene.PORT, segments=scene.SEGMENTS))
        driver.deliver(change)
    assert [record.levelno for record in caplog.records] == [
        logging.DEBUG, logging.DEBUG, logging.INFO,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [LoggerMechanismDriver, L2PopulationMechanismDriver])
def test_they_leave_binding_to_others_and_say_so(
    kind: type[LoggerMechanismDriver] | type[L2PopulationMechanismDriver],
) -> None:
    answer = kind().bind(scene.request(scene.PORT, scene.AGENT, segments=scene.SEGMENTS))
    assert isinstance(answer, Refused)
    assert "binds no ports" in answer.reason
