"""The L3 and the DHCP agent of one host, with the default directories of one state path."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.l3.environment import ROUTER, RouterSite

BLUE = str(UUID(int=1))


@pytest.fixture
def dhcp(site: RouterSite) -> Iterator[PrivateAgent]:
    site.content["networks"][0]["id"] = BLUE
    site.content["ports"].append(
        {"name": "blue-dhcp", "network": "blue", "host": site.host.name,
         "mac_address": "fa:16:3e:00:05:02", "device_owner": "network:dhcp",
         "fixed_ips": ["10.0.1.2"], "port_security_enabled": False}
    )  # fmt: skip
    site.content["assignments"].append(
        {"service": "dhcp", "host": site.host.name, "network": "blue"}
    )
    site.write()
    options = {
        "DEFAULT": {"log_level": "debug", "state_path": site.l3.directory},
        "agent": {"retry_interval": 0.1, "enable_isolated_metadata": True},
        "file": {**site.l3.options["file"], "status_path": site.directory / "reported-dhcp"},
        "openvswitch": site.l3.options["openvswitch"],
        "dnsmasq": {"dnsmasq_user": "root"},
    }
    agent = PrivateAgent(site.host, site.directory / "dhcp", "netfw.cli.agents.dhcp", options)
    yield agent
    agent.kill()


@pytest.mark.nightly
@pytest.mark.spec("DHCP-60", "MD-03")
def test_router_serves_metadata_where_it_is_the_gateway_and_dhcp_where_it_is_not(site, dhcp):
    site.start()
    dhcp.start()
    directory = site.l3.directory
    of_router = directory / "ns-metadata-proxy-l3" / "router" / f"{ROUTER}.conf"
    of_network = directory / "ns-metadata-proxy" / "network" / f"{BLUE}.conf"
    assert of_router.exists()
    assert not of_network.exists(), "the gateway of the subnet is a router's interface"
    site.content["ports"] = [p for p in site.content["ports"] if p["name"] != "port1"]
    site.content["floatingips"] = []
    site.write()
    wait_until(of_network.exists)
    assert of_router.exists()
    for agent in (site.l3, dhcp):
        assert agent.wait_for(lambda status: bool(status["ready"]))["errors"] == {}
