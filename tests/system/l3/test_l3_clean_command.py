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
