"""`netfw drivers` as an operator types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NETFW = Path(sys.executable).with_name("netfw")


def netfw(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NETFW, *arguments], check=False, capture_output=True, text=True)


@pytest.mark.spec("DRV-13")
def test_every_installed_driver_is_listed_with_where_it_comes_from() -> None:
    done = netfw("drivers", "--json")
    assert done.returncode == 0, done.stderr
    rows = {(row["interface"], row["name"]): row for row in json.loads(done.stdout)}
    null = rows["InterfaceDriver", "null"]
    assert (null["distribution"], null["health"]) == ("netfw", "ok")
    assert "plan" in rows["InterfaceDriver", "openvswitch"]["capabilities"]


@pytest.mark.spec("DRV-13")
def test_a_driver_that_works_with_another_one_says_what_it_can_do() -> None:
    done = netfw("drivers", "show", "dnsmasq", "--json")
    (row,) = json.loads(done.stdout)
    assert "dhcpv6" in row["capabilities"]
    assert "no InterfaceDriver" not in row["health"]


@pytest.mark.spec("DRV-13")
def test_the_table_has_a_line_for_each() -> None:
    lines = netfw("drivers").stdout.splitlines()
    assert lines[0].split() == [
        "INTERFACE",
        "NAME",
        "DISTRIBUTION",
        "VERSION",
        "CAPABILITIES",
        "HEALTH",
    ]
    assert any(line.startswith("InterfaceDriver") and " null " in line for line in lines)


@pytest.mark.spec("DRV-13", "DRV-12")
def test_show_names_the_options_of_a_driver() -> None:
    done = netfw("drivers", "show", "openvswitch")
    assert done.returncode == 0, done.stderr
    assert "options in [openvswitch]:" in done.stdout
    assert "integration_bridge" in done.stdout
    assert "= br-int" in done.stdout


@pytest.mark.spec("DRV-11")
def test_an_unknown_driver_is_answered_with_the_nearest() -> None:
    done = netfw("drivers", "show", "openvswich")
    assert done.returncode == 1
    assert done.stderr.startswith("netfw: no driver is called 'openvswich', did you mean 'openvs")
    assert "Traceback" not in done.stderr


def test_a_wrong_command_is_answered_with_usage() -> None:
    done = netfw("drvers")
    assert done.returncode == 2
    assert "usage: netfw" in done.stderr


@pytest.mark.spec("DRV-13", "DRV-11")
def test_a_broken_vendor_driver_is_listed_with_its_reason_and_the_rest_go_on(
    tmp_path: Path,
) -> None:
    info = tmp_path / "acme_net-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-net\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[netfw.interface_drivers]\nacme = acme_gone:Acme\n")
    done = subprocess.run(
        [NETFW, "drivers", "--json"],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["acme"]["distribution"] == "acme-net"
    assert "No module named 'acme_gone'" in rows["acme"]["health"]
    assert rows["null"]["health"] == "ok"
