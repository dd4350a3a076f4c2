"""``netfw doctor`` and ``netfw clean`` on a host of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from netfw.cli.commands.clean import LEFT
from netfw.cli.commands.doctor import FAILED
from netfw.testing.lab.lab import Lab
from tests.nightly import nightly
from tests.system.l2.agent_host import BIN, PHYSNET, AgentHost
from tests.system.l2.environment import Site
from tests.system.l2.test_l2_firewall import GUARDED, HYBRID

NETFW = str(BIN / "netfw")
EMPTY_TABLES = {"*filter", "*raw", "*nat", "*mangle", "COMMIT"}
pytestmark = pytest.mark.spec("DRV-44")


@pytest.fixture(scope="module", params=[nightly(GUARDED), HYBRID], ids=str)
def site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("clean"), request.param, agents=2)
        site.start()
        yield site


def netfw(host: AgentHost, *words: str) -> tuple[int, str]:
    command = [NETFW, *words, "--config-file", str(host.conf)]
    done = host.host.attempt(command)
    return done.status, done.output + done.error


def test_doctor_finds_what_the_host_has_and_lacks(site: Site) -> None:
    host = site["host1"]
    directory = ["--ovs-directory", str(host.host.ovs.directory)]
    status, output = netfw(host, "doctor", "--json", *directory)
    checks = {check["name"]: check for check in json.loads(output)}
    assert status == 0, output
    assert checks["drivers of l2"]["level"] == "ok"
    assert "3.1" not in checks["Open vSwitch"]["text"] or "netdev" in checks["datapath"]["text"]
    status, output = netfw(host, "doctor", "--ovs-directory", "/nowhere")
    assert status == FAILED
    assert "Open vSwitch (fail): start openvswitch-switch" in output
    firewall = host.conf.read_text().replace(f"unix:{host.host.ovs.directory}", "unix:/nowhere")
    broken = host.directory / "broken.conf"
    broken.write_text(firewall)
    done = host.host.attempt([NETFW, "doctor", "--config-file", str(broken), *directory])
    assert done.status == FAILED
    assert "drivers of l2 (fail)" in done.output


def state(host: AgentHost) -> tuple[str, str, str]:
    """Return ports, flows, and sets of a host."""
    flows = "\n".join(sorted(host.flows()))
    ports = host.vsctl("--columns=name", "--format=csv", "list", "Port")
    rules = host.host.run(["iptables-save"]) + host.host.run(["ipset", "list", "-n"])
    lines = (line for line in rules.splitlines() if not line.startswith(("#", ":")))
    return ports, flows, "\n".join(lines)


def test_clean_removes_what_netfw_made_and_nothing_else(site: Site) -> None:
    host = site["host1"]
    couple = site.couple("vxlan", "host1", "host2")
    site.settle()
    couple.await_reach()
    host.vsctl("add-port", "br-int", "mine", "--", "set", "Interface", "mine", "type=internal")
    host.vsctl("set", "Bridge", "br-int", "external_ids:mine=1")
    host.host.run(["ipset", "create", "mine", "hash:ip"])
    before = state(host)
    for part in ("firewall", "switch"):
        status, output = netfw(host, "clean", part, "--yes")
        assert (status, state(host)) == (1, before), output
        assert "nothing was removed, since an agent runs" in output
    assert host.stop() == 0
    for part in ("firewall", "switch"):
        status, output = netfw(host, "clean", part)
        assert (status, state(host)) == (LEFT, before), output
        assert "nothing was removed: stop the agent, and repeat with --yes" in output
        assert "to be removed" in output
        status, output = netfw(host, "clean", part, "--yes")
        assert status == 0, output
        status, output = netfw(host, "clean", part, "--dry-run")
        assert status == 0, output
        assert "nothing is left" in output
        before = state(host)
    ports, flows, rules = before
    assert "mine" in ports
    assert couple.ports[0].device in ports
    assert "netfw-tunnel" not in host.vsctl("--columns=external_ids", "list", "Port")
    assert couple.ports[0].mac not in flows
    assert not {line for line in rules.splitlines() if line != "mine"} - EMPTY_TABLES
    assert couple.instances[0].ping(couple.ports[1].v4, count=1, timeout=0.3).received == 0
    host.vsctl("del-port", "br-int", "mine")
    host.start()
    site.settle()
    couple.await_reach()
