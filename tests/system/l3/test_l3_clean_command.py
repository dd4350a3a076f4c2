"""``netfw clean routers`` on hosts whose routers come from a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.cli.commands.clean import LEFT
from netfw.testing.lab import sandbox
from tests.system.l3.environment import FileSite, file_site

NETFW = str(Path(sys.executable).with_name("netfw"))


@pytest.fixture(scope="module")
def site() -> Iterator[FileSite]:
    sandbox.require()
    with file_site() as made:
        yield made


@pytest.mark.spec("DRV-44")
def test_cleaning_dhcp_leaves_the_ports_of_routers_and_the_other_way_round(
    site: FileSite, tmp_path: Path
) -> None:
    host = next(
        each for each in site.hosts.values() if "qrouter-" in each.host.run(["ip", "netns"])
    )
    machine = host.host
    (tmp_path / "dhcp.conf").write_text("[agent]\ndhcp_driver = dnsmasq\n")
    files = ["--config-file", str(host.serving.conf), "--config-file", str(tmp_path / "dhcp.conf")]
    id, device = "d4c90000-0000-0000-0000-000000000001", "tapd4c90000-00"
    machine.ovs.vsctl(
        "add-port", "br-int", device,
        "--", "set", "Port", device, f"external_ids:netfw-port={id}",
        "--", "set", "Interface", device, "type=internal", f"external_ids:iface-id={id}",
    )  # fmt: skip
    before = set(machine.ovs.vsctl("list-ports", "br-int").split())
    assert any(name.startswith("qr-") for name in before)
    routers = machine.attempt([NETFW, "clean", "routers", *files[:2]])
    assert "qr-" in routers.output
    assert device not in routers.output
    listed = machine.attempt([NETFW, "clean", "dhcp", *files])
    assert device in listed.output, listed.output
    assert "qr-" not in listed.output
    done = machine.attempt([NETFW, "clean", "dhcp", "--yes", *files])
    assert done.status == 0, done.output + done.error
    assert set(machine.ovs.vsctl("list-ports", "br-int").split()) == before - {device}


@pytest.mark.spec("DRV-44")
def test_routers_are_removed_with_their_ports_when_no_agent_runs(site: FileSite) -> None:
    host = next(
        each for each in site.hosts.values() if "qrouter-" in each.host.run(["ip", "netns"])
    )
    agent, machine = host.serving, host.host
    machine.run(["ip", "netns", "add", "mine"])

    def netfw(*words: str) -> tuple[int, str]:
        command = [NETFW, "clean", "routers", "--config-file", str(agent.conf), *words]
        done = machine.attempt(command)
        return done.status, done.output + done.error

    def namespaces() -> set[str]:
        return {line.split()[0] for line in machine.run(["ip", "netns"]).splitlines()}

    before = namespaces()
    status, output = netfw("--yes")
    assert (status, namespaces()) == (1, before), output
    assert "nothing was removed, since an agent runs" in output
    agent.stop()
    status, output = netfw("--dry-run")
    assert (status, namespaces()) == (LEFT, before), output
    assert "qrouter-" in output
    status, output = netfw("--yes")
    assert status == 0, output
    assert not [name for name in namespaces() if name.startswith(("qrouter-", "snat-", "fip-"))]
    assert "mine" in namespaces()
    assert "netfw-netns" not in machine.ovs.vsctl("--columns=external_ids", "list", "Interface")
    assert netfw("--dry-run")[0] == 0
    machine.run(["ip", "netns", "del", "mine"])
    agent.start()
    assert "qrouter-" in machine.run(["ip", "netns"])
