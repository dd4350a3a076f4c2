"""The access log."""

from __future__ import annotations

import logging

import pytest

from netfw import request_id
from tests.server.api.environment import Client


def test_writes_are_logged_at_info_and_reads_at_debug_with_their_request_id(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(request_id.log_filter)
    caplog.set_level(logging.INFO, "netfw.server.api.access_log")
    client.post("networks", {"network": {"name": "blue"}})
    client.post("networks", {"network": {"nmae": "blue"}})
    client.get("networks")
    client.as_("").raw("POST", "/v2.0/net works\n")
    made, wrong, unauthenticated = caplog.records
    assert made.getMessage().startswith("POST /v2.0/networks: 201 for user ")
    assert "of project" in made.getMessage()
    assert made.getMessage().endswith(" ms")
    assert vars(made)["request_id"].startswith("req-")
    assert "POST /v2.0/networks: 400 for user" in wrong.getMessage()
    assert "for an unknown user" in unauthenticated.getMessage()
    assert "\n" not in unauthenticated.getMessage()
    caplog.clear()
    caplog.set_level(logging.DEBUG, "netfw.server.api.access_log")
    client.get("networks")
    assert [each.levelname for each in caplog.records] == ["DEBUG"]
