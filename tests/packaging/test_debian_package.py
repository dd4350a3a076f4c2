"""The Debian package on a real systemd: installed, run, upgraded and purged, in this order."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests.packaging.machine import Machine
from tests.system.unit_privileges import capabilities

pytestmark = [pytest.mark.timeout(900), pytest.mark.spec("DRV-48")]

SERVER, L2, DHCP, L3, METADATA = (
    f"netfw-{name}" for name in ("server", "ovs-agent", "dhcp-agent", "l3-agent", "metadata-agent")
)
UNITS = (SERVER, L2, DHCP, L3, METADATA)
OPTIONS = {
    L2: "[openvswitch]\ndatapath_type = netdev\n",
    METADATA: "[metadata]\nmetadata_proxy_shared_secret = secret\n",
}
MAC = "fa:16:3e:00:00:01"


def install(machine: Machine, package: Path) -> str:
    shutil.copy(package, machine.root / "root")
    return machine.run("dpkg", "--force-confold", "--install", f"/root/{package.name}")


def is_active(machine: Machine, unit: str) -> bool:
    return machine.property(unit, "ActiveState") == "active"


def main_pid(machine: Machine, unit: str) -> int:
    return int(machine.property(unit, "MainPID"))


def process_status(machine: Machine, unit: str) -> dict[str, str]:
    text = machine.run("cat", f"/proc/{main_pid(machine, unit)}/status")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_installation_makes_users_and_starts_nothing(machine: Machine, package: Path) -> None:
    install(machine, package)
    for name in ("netfw", "netfw-conformance", "netfw-db", *UNITS):
        assert machine.run(name, "--version") == f"{name} 0.1.0\n"
        section = 8 if name in UNITS else 1
        machine.run("test", "-s", f"/usr/share/man/man{section}/{name}.{section}.gz")
    for user in ("netfw", "netfw-metadata"):
        assert int(machine.run("id", "--user", user)) > 0
    for unit in UNITS:
        assert machine.try_run(["systemctl", "is-enabled", unit]).stdout.strip() == "disabled"
        assert not is_active(machine, unit)
    modes = machine.run("stat", "-c", "%n %U:%G %a", "/etc/netfw/server.conf", "/var/lib/netfw")
    assert modes == "/etc/netfw/server.conf root:netfw 640\n/var/lib/netfw root:root 755\n"
    units = [f"/lib/systemd/system/{unit}.service" for unit in UNITS]
    verified = machine.try_run(["systemd-analyze", "verify", "--man=no", *units])
    assert "netfw" not in verified.stderr, verified.stderr
    shown = machine.run("dpkg-query", "--show", "--showformat", "${Conffiles}", "netfw")
    assert "/etc/netfw/ovs-agent.conf" in shown


def test_units_start_and_have_their_privileges_only(machine: Machine) -> None:
    for unit, options in OPTIONS.items():
        path = f"/etc/netfw/{unit.removeprefix('netfw-')}.conf"
        text = (machine.root / path[1:]).read_text()
        machine.write(path, f"{text}\n{options}")
    for unit in UNITS:
        machine.run("systemctl", "start", unit)  # which waits for its notification
        assert is_active(machine, unit), machine.journal(unit)
    for unit, user in ((SERVER, "netfw"), (METADATA, "netfw-metadata")):
        status = process_status(machine, unit)
        assert status["Uid"].split()[0] == machine.run("id", "--user", user).strip()
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    for unit in (L2, DHCP, L3):
        bounds = int(process_status(machine, unit)["CapBnd"], 16)
        assert bounds.bit_count() == len(capabilities(unit))
    for unit in UNITS:
        assert process_status(machine, unit)["NoNewPrivs"] == "1"
        assert process_status(machine, unit)["Seccomp"] == "2"
    binaries = {"netfw-ovs-agent", "netfw-dhcp-agent", "netfw-l3-agent", "netfw-metadata-agent"}
    wait_until(lambda: binaries <= {each["binary"] for each in agents(machine)})


def agents(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.api("GET", "/v2.0/agents")["agents"]
    return found


def create(machine: Machine, kind: str, **values: object) -> dict[str, Any]:
    made: dict[str, Any] = machine.api("POST", f"/v2.0/{kind}s", {kind: values})[kind]
    return made


def test_a_port_gets_its_lease_and_reaches_its_router(machine: Machine) -> None:
    host = machine.run("hostname").strip()
    network = create(machine, "network", name="blue", **{"provider:network_type": "local"})
    subnet = create(machine, "subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    router = create(machine, "router", name="edge")
    path = f"/v2.0/routers/{router['id']}/add_router_interface"
    machine.api("PUT", path, {"subnet_id": subnet["id"]})
    port = create(
        machine, "port", network_id=network["id"], mac_address=MAC, **{"binding:host_id": host}
    )
    interface = ("--", "set", "Interface", "tap1", "type=internal", f'mac="{MAC}"')
    quoted = [f"external_ids:iface-id={port['id']}", f'external_ids:attached-mac="{MAC}"']
    quoted.append("external_ids:iface-status=active")
    wait_until(lambda: "br-int" in machine.run("ovs-vsctl", "list-br"))
    machine.run("ovs-vsctl", "add-port", "br-int", "tap1", *interface, *quoted)
    wait_until(lambda: machine.try_run(["ip", "link", "set", "tap1", "up"]).returncode == 0)
    show = f"/v2.0/ports/{port['id']}"
    status = lambda: machine.try_run(["netfw", "status"]).stdout  # noqa: E731
    wait_until(lambda: machine.api("GET", show)["port"]["status"] == "ACTIVE", status)
    lease = ["udhcpc", "-i", "tap1", "-n", "-q", "-f", "-t", "5", "-s", "/bin/true"]
    address = port["fixed_ips"][0]["ip_address"]
    wait_until(lambda: f"lease of {address}" in machine.try_run(lease).stderr, status)
    machine.run("ip", "address", "add", f"{address}/24", "dev", "tap1")
    ping = ["ping", "-c", "1", "-W", "1", "10.0.0.1"]
    wait_until(lambda: machine.try_run(ping).returncode == 0, status)
    assert "qrouter-" in machine.run("ip", "netns"), "other processes do not see the namespaces"


def test_reload_and_restart_keep_what_the_agents_started(machine: Machine) -> None:
    servers = machine.run("pgrep", "dnsmasq")
    former = main_pid(machine, DHCP)
    machine.run("systemctl", "reload", DHCP)
    wait_until(lambda: is_active(machine, DHCP))  # it was reloading
    assert main_pid(machine, DHCP) == former
    machine.run("systemctl", "restart", DHCP)
    assert main_pid(machine, DHCP) != former
    wait_until(lambda: machine.property(DHCP, "StatusText").startswith("ready"))
    assert machine.run("pgrep", "dnsmasq") == servers


def test_an_agent_that_hangs_is_started_again(machine: Machine) -> None:
    drop_in = "[Service]\nWatchdogSec=3\nRestartSec=0\nTimeoutAbortSec=3\n"
    machine.write(f"/etc/systemd/system/{L2}.service.d/test.conf", drop_in)
    with (machine.root / "etc/netfw/ovs-agent.conf").open("a") as conf:
        conf.write("\n[agent]\nreport_interval = 1\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", L2)
    former = main_pid(machine, L2)
    machine.run("kill", "-STOP", str(former))
    wait_until(lambda: main_pid(machine, L2) not in (0, former), lambda: machine.journal(L2))
    wait_until(lambda: is_active(machine, L2))
    assert "Watchdog timeout" in machine.journal(L2)


def test_a_wrong_option_ends_a_service_without_restarts(machine: Machine) -> None:
    conf = machine.root / "etc/netfw/l3-agent.conf"
    right = conf.read_text()
    conf.write_text(f"{right}\n[agent]\nrouter_driver = nonsense\n")
    assert machine.try_run(["systemctl", "restart", L3]).returncode != 0
    assert machine.property(L3, "ActiveState") == "failed"
    assert machine.property(L3, "ExecMainStatus") == "2"
    assert machine.property(L3, "NRestarts") == "0"
    conf.write_text(right)
    machine.run("systemctl", "restart", L3)


def newer(package: Path, directory: Path) -> Path:
    """Return the same package with a later version and another default in a configuration file."""
    tree = directory / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("Version: 0.1.0", "Version: 0.1.1"))
    with (tree / "etc/netfw/ovs-agent.conf").open("a") as conf:
        conf.write("# of the later release\n")
    made = directory / "netfw_0.1.1.deb"
    options = ("-Zgzip", "-z1", "--root-owner-group")
    subprocess.run(["dpkg-deb", *options, "--build", tree, made], check=True)
    return made


def test_upgrade_keeps_files_that_were_changed_and_restarts_services(
    machine: Machine, package: Path, tmp_path: Path
) -> None:
    servers = machine.run("pgrep", "dnsmasq")
    conf = machine.root / "etc/netfw/ovs-agent.conf"
    changed, former = conf.read_text(), main_pid(machine, SERVER)
    install(machine, newer(package, tmp_path))
    assert conf.read_text() == changed
    assert "of the later release" in conf.with_name("ovs-agent.conf.dpkg-dist").read_text()
    for unit in UNITS:
        wait_until(lambda unit=unit: is_active(machine, unit), f"{unit} is active")
    assert main_pid(machine, SERVER) != former
    assert machine.run("pgrep", "dnsmasq") == servers
    assert machine.api("GET", "/v2.0/networks")["networks"][0]["name"] == "blue"


def test_removal_keeps_the_configuration_and_purge_removes_all(machine: Machine) -> None:
    machine.run("dpkg", "--remove", "netfw")
    assert not any(is_active(machine, unit) for unit in UNITS)
    machine.run("test", "-e", "/etc/netfw/ovs-agent.conf")
    machine.run("rm", "/etc/netfw/ovs-agent.conf.dpkg-dist")
    machine.run("dpkg", "--purge", "netfw")
    for path in ("/etc/netfw", "/var/lib/netfw", "/var/lib/netfw-server", "/usr/lib/netfw"):
        assert machine.try_run(["test", "-e", path]).returncode == 1, path
    for user in ("netfw", "netfw-metadata"):
        assert machine.try_run(["id", user]).returncode == 1
