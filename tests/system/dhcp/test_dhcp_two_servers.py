"""A network that two hosts serve: one may go without anybody noticing."""

from __future__ import annotations

import pytest

from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, dhcp_agent, fetch6, leased

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def pair(net: DhcpNet) -> DhcpNet:
    """Return the network, served by both hosts."""
    (serving,) = wait_until(net.serving_hosts, "it is served")
    (other,) = (host for host in net.cloud.hosts if host is not serving)
    net.cloud.network.add_dhcp_agent_to_network(dhcp_agent(net.cloud, other), net.network.id)
    wait_until(lambda: all(net.server_pid(host) for host in net.cloud.hosts), "both serve it")
    return net


@pytest.mark.spec("DHCP-43", "DHCP-49")
def test_either_of_two_servers_gives_the_same_address(pair: DhcpNet) -> None:
    port, client, lease = pair.boot(0)
    wait_until(lambda: (lease := client.renew()) and len(lease.dns) == 2, "both are name servers")
    for host in pair.cloud.hosts:
        host.dhcp.kill()
        pair.kill_server(host)
        assert leased(client, port).ip == lease.ip
        host.dhcp.start()
        wait_until(lambda host=host: pair.server_pid(host), "it serves again")


@pytest.mark.spec("DHCP-49")
def test_removing_one_of_two_servers_keeps_leases_renewed(pair: DhcpNet) -> None:
    with pair.renewing(0) as one, pair.renewing(1) as two:
        host = pair.cloud.hosts[0]
        pair.cloud.network.remove_dhcp_agent_from_network(
            dhcp_agent(pair.cloud, host), pair.network.id
        )
        wait_until(lambda: host not in pair.serving_hosts(), "it serves no longer")
        assert len(pair.serving_hosts()) == 1
        for each in (one, two):
            each.check()
            assert each.longest_silence < 2


@pytest.mark.spec("DHCP-26", "MD-10")
def test_metadata_by_ipv6_outlives_either_of_two_servers(pair: DhcpNet) -> None:
    # Both have the same link-local address, and each answers for it.
    instance = pair.plug(pair.port(0, device_id="vm-six"))
    answer = wait_until(lambda: fetch6(instance), "it is there")
    assert answer.split()[0] == "vm-six"
    for host in pair.cloud.hosts:
        agent = dhcp_agent(pair.cloud, host)
        pair.cloud.network.remove_dhcp_agent_from_network(agent, pair.network.id)
        wait_until(lambda host=host: host not in pair.serving_hosts(), "it serves no longer")
        instance.run(["ip", "-6", "neighbour", "flush", "dev", str(instance.device)])
        assert wait_until(lambda: fetch6(instance), "the other is found") == answer
        pair.cloud.network.add_dhcp_agent_to_network(agent, pair.network.id)
        wait_until(lambda host=host: pair.server_pid(host), "it serves again")
