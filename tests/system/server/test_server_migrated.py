"""A server that runs on while ``netfw-db`` of another release changes its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from netfw.cli.commands.db import main
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import wait_until
from tests.system.server.environment import make_network

FORMER = "0025"


@pytest.mark.spec("DRV-48", "ML2-11")
def test_a_server_refuses_changes_and_is_not_ready_until_its_tables_are_back(
    tmp_path: Path,
) -> None:
    sandbox.require()
    with PrivateNetfw(tmp_path / "server") as server:
        conf = ["--config-file", str(server.directory / "server.conf")]
        assert make_network(server, "before") == 201
        assert main([*conf, "downgrade", FORMER]) == 0
        body = {"network": {"name": "between"}}
        status, answer = server.request("POST", "/v2.0/networks", body)
        assert status == 503, answer
        assert f"version {FORMER} of its tables" in server.log.read_text()
        wait_until(lambda: not server.ready())
        assert main([*conf, "upgrade"]) == 0
        wait_until(server.ready)
        assert make_network(server, "after") == 201
        _, found = server.request("GET", "/v2.0/networks")
        assert {each["name"] for each in found["networks"]} == {"before", "after"}
        assert "Traceback" not in server.log.read_text()
