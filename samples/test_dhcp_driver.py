"""The sample DHCP driver, installed as its README says: its suite, its types, its defects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from attrs import frozen

from netfw.testing.lab import sandbox
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.dhcp_client import Udhcpc
from netfw.testing.lab.instance import Plug
from tests.nightly import nightly

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "dhcp_driver"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the sample; return the directory."""
    sandbox.require()
    directory = tmp_path_factory.mktemp("tiny-dhcp")
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*_cache")
    shutil.copytree(SAMPLE, directory / "checkout", ignore=unwanted)
    offline = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    install = ("pip", "install", *offline, "--no-build-isolation", "--target", directory / "site")
    done = run(*install, directory / "checkout", path=directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "site"


def run(module: str, *arguments: str | Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=SAMPLE,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def pytest_in(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the sample's own tests with the driver in *path*."""
    return run("pytest", "-p", "no:cacheprovider", "-q", *arguments, path=path)


@pytest.mark.spec("DRV-10", "DRV-13")
def test_netfw_drivers_shows_its_options_and_health(site: Path) -> None:
    done = run("netfw.cli.commands.main", "drivers", "show", "tiny-dhcp", "--json", path=site)
    assert done.returncode == 0, done.stderr
    (described,) = json.loads(done.stdout)
    assert (described["distribution"], described["interface"]) == ("tiny-dhcp", "DhcpDriver")
    assert described["health"] == "ok"
    assert [option["name"] for option in described["options"]] == ["directory", "lease"]


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.spec("DRV-03", "DRV-30")
def test_its_own_tests_pass_with_plain_pytest(site: Path) -> None:
    done = pytest_in(site)
    assert done.returncode == 0, done.stdout
    skipped = set(re.findall(r"does not declare the capability '(\S+)'", done.stdout))
    assert skipped == {"plan", "dhcpv6"}


def test_its_types_are_checked_against_netfw(site: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--follow-imports=silent"],
        cwd=SAMPLE,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


NETWORK, SERVER, PORT = (str(UUID(int=number)) for number in (1, 2, 3))
MAC = "fa:16:3e:00:00:03"


def topology(host: str) -> dict[str, Any]:
    """Return a network with an instance and a DHCP server on the same host."""
    here = {"network": "net", "host": host, "port_security_enabled": False}
    server = {"id": SERVER, "mac_address": "fa:16:3e:00:00:02", "fixed_ips": ["10.0.0.2"], **here}
    return {
        "hosts": {host: {}},
        "networks": [{"id": NETWORK, "name": "net", "network_type": "local"}],
        "subnets": [{"name": "sub", "network": "net", "cidr": "10.0.0.0/24"}],
        "ports": [
            {"name": "server", "device_owner": "network:dhcp", **server},
            {"name": "vm", "id": PORT, "mac_address": MAC, "fixed_ips": ["10.0.0.3"], **here},
        ],
        "assignments": [{"service": "dhcp", "host": host, "network": "net"}],
    }


@pytest.mark.spec("DRV-33")
def test_the_dhcp_agent_serves_with_it(
    site: Path, make_lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restart the agent, too: the server process continues."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    (host,) = make_lab(hosts=1, bridges=["br-int"]).hosts.values()
    file, directory = tmp_path / "topology.json", tmp_path / "tiny"
    file.write_text(json.dumps(topology(host.name)))
    options = {
        "file": {"path": file, "status_path": tmp_path / "status", "poll": 0.05, "debounce": 0},
        "openvswitch": {"datapath_type": "netdev", "ovsdb_connection": host.ovs.remote},
    }
    selected = {"agent": {"dhcp_driver": "tiny-dhcp"}, "tiny-dhcp": {"directory": directory}}
    wiring = PrivateAgent(host, tmp_path / "l2", "netfw.cli.agents.l2", options)
    agent = PrivateAgent(host, tmp_path / "dhcp", "netfw.cli.agents.dhcp", {**options, **selected})
    ids = {"iface-id": PORT, "attached-mac": MAC}
    plug = Plug(bridge="br-int", device="tap3", mac=MAC, external_ids=ids)
    client = Udhcpc(host.instance("vm", plug), timeout=30.0)
    try:
        wiring.start()
        agent.start()
        lease = client.lease()
        assert (str(lease.ip), str(lease.server)) == ("10.0.0.3", "10.0.0.2")
        records = {
            path.name: path.read_bytes() for path in (directory / "processes").rglob("*.pid")
        }
        agent.kill()
        assert client.renew() == lease
        agent.start()
        assert client.renew() == lease
        after = {path.name: path.read_bytes() for path in (directory / "processes").rglob("*.pid")}
        assert after == records != {}, "the server was restarted"
    finally:
        client.close()
        agent.kill()
        wiring.kill()


@frozen
class Defect:
    """A defect of a driver: *wrong* instead of *right*, and the test that detects it."""

    file: str
    right: str
    wrong: str
    detected_by: str


DEFECTS = {
    "leaves the old MAC": Defect(
        "driver.py",
        "_unlink(file, keep=port.mac)",
        "pass",
        "test_a_port_with_another_mac_is_known_by_that_alone",
    ),
    "answers for other servers": Defect(
        "server.py",
        "not in (None, *servers.values())",
        "== b'none'",
        "test_unknown_clients_and_requests_to_other_servers_get_no_reply",
    ),
    "never sends NAK": Defect(
        "server.py",
        "if kind == ACK and wanted != address:",
        "if False:",
        "test_request_for_another_address_is_refused",
    ),
    "does not report deaths": Defect(
        "driver.py",
        "            self._sink(ProcessDied(",
        "            print(ProcessDied(",
        "test_a_server_that_dies_is_reported_and_restarted",
    ),
}
first, *others = DEFECTS.values()


@pytest.mark.spec("DRV-30")
@pytest.mark.parametrize("defect", [first, *map(nightly, others)], ids=DEFECTS.keys())
def test_a_driver_with_a_defect_fails_the_suite(site: Path, tmp_path: Path, defect: Defect) -> None:
    shutil.copytree(site, tmp_path / "site")
    file = tmp_path / "site" / "tiny_dhcp" / defect.file
    assert file.read_text().count(defect.right) == 1
    file.write_text(file.read_text().replace(defect.right, defect.wrong))
    done = pytest_in(tmp_path / "site", "-k", defect.detected_by)
    assert done.returncode == 1, done.stdout
    assert defect.detected_by in done.stdout
