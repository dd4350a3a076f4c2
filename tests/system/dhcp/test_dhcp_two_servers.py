"""A network that two hosts serve: one may go without anybody noticing."""

from __future__ import annotations

import pytest
from dhcp_cloud import DhcpNet, await_that, leased

SCHEDULING = {"dhcp_agents_per_network": 2}

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("DHCP-43", "DHCP-49")
def test_either_of_two_servers_gives_the_same_address(net: DhcpNet) -> None:
    port, client, lease = net.boot(0)
    await_that(lambda: len(net.places()) == 2, "both serve it")
    assert len(lease.dns) == 2
    for host in net.cloud.hosts:
        host.dhcp.kill()
        net.kill_server(host)
        again = leased(client, port)
        assert again.ip == lease.ip
        host.dhcp.start()
        await_that(lambda host=host: net.server_pid(host), "it serves again")
