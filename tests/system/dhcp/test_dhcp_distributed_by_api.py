"""From a call of the API to a lease of the instance's own host, without a DHCP agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from netfw.cli.demo.server import Cloud
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, address

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
SCHEDULING = {"distributed_dhcp": True}


@pytest.fixture
def net(cloud: Cloud) -> Iterator[DhcpNet]:
    """Yield a network with an IPv4 subnet; the L2 agents answer DHCP."""
    for host in cloud.hosts:
        if host.agent.options["agent"].get("extensions") != "dhcp":
            host.agent.options["agent"]["extensions"] = "dhcp"
            host.agent.stop()
            host.agent.start()
    with DhcpNet(cloud, "distributed") as made:
        made.subnet(4)
        yield made


@pytest.mark.spec("DHCP-81", "DHCP-82")
def test_instances_on_both_hosts_are_answered_from_one_port(net: DhcpNet) -> None:
    (server,) = net.servers()
    assert (server.device_id, server.binding_host_id) == (DISTRIBUTED_DHCP_DEVICE, "")
    for host in (0, 1):
        port, client, lease = net.boot(host)
        assert str(lease.server) == address(server)
        assert lease.mtu == net.network.mtu
        wait_until(lambda id=port.id: net.cloud.network.get_port(id).status == "ACTIVE")
        assert client.renew() == lease
    assert net.serving_hosts() == [], "there is no namespace"


@pytest.mark.spec("DHCP-81", "DHCP-82")
def test_a_further_subnet_is_served_from_the_same_port(net: DhcpNet) -> None:
    (server,) = net.servers()
    modes: dict[str, Any] = dict.fromkeys(("ipv6_ra_mode", "ipv6_address_mode"), "dhcpv6-stateful")
    subnet = net.subnet(6, **modes)
    (grown,) = net.servers()
    assert grown.id == server.id
    assert subnet.id in {fixed["subnet_id"] for fixed in grown.fixed_ips}
    port = net.port(0)
    wanted = {fixed["ip_address"] for fixed in port.fixed_ips if ":" in fixed["ip_address"]}
    lease = net.client6(net.plug(port)).lease()
    assert lease is not None
    assert set(map(str, lease.addresses)) == wanted
    net.delete(port)
    net.cloud.network.delete_subnet(subnet.id)
    (left,) = net.servers()
    assert [fixed["ip_address"] for fixed in left.fixed_ips] == [address(server)]


@pytest.mark.spec("DHCP-81")
def test_a_change_of_the_api_reaches_the_next_renewal(net: DhcpNet) -> None:
    port, client, _ = net.boot(0)
    option = {"opt_name": "mtu", "opt_value": "1234"}
    net.cloud.network.update_port(port.id, extra_dhcp_opts=[option])

    def renewed_mtu() -> int | None:
        lease = client.renew()
        return None if lease is None else lease.mtu

    wait_until(lambda: renewed_mtu() == 1234)
