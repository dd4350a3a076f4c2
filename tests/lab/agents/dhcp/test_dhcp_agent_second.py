"""A second netfw-dhcp-agent with the directory of the first."""

import os
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.dhcp.environment import Site, port_id
from tests.nightly import nightly


def second_agent(site: Site) -> PrivateAgent:
    confs = site.dhcp.directory / "dhcp"
    options = {
        **site.dhcp.options,
        "DEFAULT": {"log_level": "debug"},
        "agent": {"retry_interval": 0.1},
        "file": {**site.dhcp.options["file"], "status_path": site.directory / "said-second"},
        "dnsmasq": {"dnsmasq_user": "root", "dhcp_confs": confs},
    }
    return PrivateAgent(site.host, site.directory / "second", "netfw.cli.agents.dhcp", options)


@pytest.mark.spec("DHCP-40")
@pytest.mark.parametrize("ending", [nightly("stop"), "kill"])
def test_second_agent_names_the_lock_holder_and_takes_over(site, ending):
    site.port(11)
    site.write()
    site.start()
    client = site.client(11)
    lease, pid = client.lease(), site.pid()
    second = second_agent(site)
    second.spawn()
    try:
        status = second.wait_for(lambda status: bool(status.get("errors")))
        (trouble,) = set(status["errors"].values())
        assert f"process {site.dhcp.pid} works in {site.dhcp.directory / 'dhcp'}" in trouble
        assert "a host has one of each" in trouble
        assert not status["ready"]
        assert trouble in second.log.read_text()
        assert site.plan().status == 0, "who only looks waits for nobody"
        site.port(12)
        site.write()
        assert site.client(12).lease().ip == IPv4Address("10.0.0.12"), "the first one goes on"
        assert not second.status()["ready"]
        reports = "".join(path.read_text() for path in Path(site.directory).glob("said-second*"))
        assert port_id(11) not in reports, "and says nothing of ports that are another's"
        getattr(site.dhcp, ending)()
        second.wait_for(lambda status: bool(status.get("ready")))
        assert site.pid() == pid
        assert client.renew().ip == lease.ip
        site.port(13)
        site.write()
        assert site.client(13).lease().ip == IPv4Address("10.0.0.13")
        os.kill(pid, 9)
        wait_until(lambda: site.pid() not in (None, pid))
    finally:
        second.stop()
