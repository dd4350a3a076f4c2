"""What netfw-server refuses at its start, in a sentence."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from netfw.errors import BackendBroken
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.server import PrivateNetfw
from tests.system.server.environment import make_network

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    sandbox.require()


def test_what_cannot_be_is_found_before_the_database_is_touched(tmp_path: Path) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text('create_netwrk: "role:admin"\n')
    configs: tuple[dict[str, dict[str, object]], ...] = (
        {"api": {"bind": "127.0.0.1:99999"}},
        {"policy": {"file": rules}},
    )
    for number, wrong in enumerate(configs):
        server = PrivateNetfw(tmp_path / f"server{number}", wrong)
        with pytest.raises(BackendBroken):
            server.start()
        assert (server.directory / "netfw.db").stat().st_size == 0


def test_tables_of_a_newer_release_end_the_start_with_what_to_run(tmp_path: Path) -> None:
    server = PrivateNetfw(tmp_path / "server")
    with server:
        assert make_network(server, "kept") == 201
    with closing(sqlite3.connect(server.directory / "netfw.db")) as file:
        file.execute("UPDATE netfw_version SET version_num = '7777'")
        file.commit()
    with pytest.raises(BackendBroken, match=r"netfw-db downgrade .* with the newer release"):
        server.start()
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": {"transport": "pigeon"}}, "pigeon"),
        ({"api": {"socket": "", "bind": "nowhere"}}, "nowhere"),
        ({"api": {"socket": "", "bind": ""}}, "listens nowhere"),
        ({"ml2": {"mechanism_drivers": "openvswtch"}}, "did you mean 'openvswitch'"),
        ({"ml2": {"tenant_network_types": "vxlam"}}, "vxlam"),
        (
            {"DEFAULT": {"l3_ha_network_type": "vxlam"}},
            "l3_ha_network_type: vxlam is not among type_drivers",
        ),
        ({"DEFAULT": {"l3_ha_network_physical_name": "p"}}, "needs l3_ha_network_type"),
        ({"DEFAULT": {"l3_ha_net_cidr": "169.254.192.0/30"}}, "l3_ha_net_cidr: 169.254.192.0/30"),
        ({"scheduling": {"dvr_base_mac": "fa:16:3e:00:00:00"}}, "begins as base_mac"),
        ({"DEFAULT": {"l3_ha_net_cidr": "fd00::/18"}}, "l3_ha_net_cidr: fd00::/18 is not an IPv4"),
        ({"DEFAULT": {"l3_ha_net_cidr": "169.254.192.1/18"}}, "l3_ha_net_cidr: 169.254.192.1/18"),
        (
            {"DEFAULT": {"l3_ha_net_cidr": "169.254.0.0/16"}},
            "169.254.0.0/16 overlaps 169.254.0",
        ),
        ({"identity": {"methods": "magic"}}, "magic"),
        ({"database": {"connection": "oracle://x"}}, "oracle"),
        ({"DEFAULT": {"service_plugins": "router,router"}}, "router"),
        ({"server": {"serve": "api,mesages"}}, "mesages"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence_and_nothing_is_served(
    tmp_path: Path, options: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(BackendBroken) as caught:
        PrivateNetfw(tmp_path / "server", options).start()
    text = str(caught.value)
    assert message in text
    assert "Traceback" not in text


def test_a_second_server_on_one_socket_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with PrivateNetfw(tmp_path / "server") as first:
        argv = [sys.executable, "-m", "netfw.cli.server.main"]
        conf = str(first.directory / "server.conf")
        done = subprocess.run(
            [*argv, "--config-file", conf], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "another server serves" in done.stderr
        assert make_network(first, "still") == 201
