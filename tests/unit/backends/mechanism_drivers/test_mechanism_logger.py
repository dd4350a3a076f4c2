"""Mechanism drivers without a backend: what the logger logs, and that neither binds."""

from __future__ import annotations

import logging

import pytest
from attrs import evolve

from netfw.drivers.server.mechanism import Refused
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw_drivers.mechanism_drivers.l2population import L2PopulationMechanismDriver
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver, render_change

RENAMED = evolve(samples.NETWORK, name="green", mtu=1400, revision=2)


def test_change_is_rendered_in_one_line_without_text_of_users() -> None:
    network = samples.NETWORK
    about = f"network {network.id}"
    lines = {
        render_change(samples.change(None, network)): "is new, revision 1",
        render_change(samples.change(network, RENAMED)): "has another name, mtu, revision 2",
        render_change(samples.change(network, network)): "is as it was, revision 1",
        render_change(samples.change(RENAMED, None)): "is gone, revision 2",
        render_change(evolve(samples.change(RENAMED, None), request_id="req-1")): (
            "is gone, revision 2 (request req-1)"
        ),
    }
    for line, expected in lines.items():
        assert line == f"{about} {expected}"


def test_validation_is_logged_at_debug_and_delivery_at_info(
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
def test_binding_is_refused_with_a_reason(
    kind: type[LoggerMechanismDriver] | type[L2PopulationMechanismDriver],
) -> None:
    answer = kind().bind(samples.request(samples.PORT, samples.AGENT, segments=samples.SEGMENTS))
    assert isinstance(answer, Refused)
    assert "binds no ports" in answer.reason
