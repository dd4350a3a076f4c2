"""Floating IP pools: the IPv4 subnets of external networks."""

from __future__ import annotations

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, api

URL = "floatingip-pools"


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    return api([*plugins, RouterPlugin(plugins[0].context)])


@pytest.mark.spec("API-07")
def test_pools_are_the_ipv4_subnets_of_visible_external_networks(client: Client) -> None:
    admin = client.as_("root/admin")
    outside = admin.network(**{"router:external": True})["id"]
    one, two = (
        admin.make("subnets", network_id=outside, cidr=cidr, ip_version=4, name=name)["id"]
        for name, cidr in (("one", "203.0.113.0/24"), ("two", "198.51.100.0/24"))
    )
    admin.make("subnets", network_id=outside, cidr="2001:db8::/64", ip_version=6)
    inside = client.network()["id"]
    client.make("subnets", network_id=inside, cidr="10.0.0.0/24", ip_version=4)
    pools = client.list(URL, sort_key="subnet_name")
    assert pools == [
        {
            "subnet_id": subnet,
            "subnet_name": name,
            "network_id": outside,
            "cidr": cidr,
            "project_id": "alice",
            "tenant_id": "alice",
        }
        for subnet, name, cidr in ((one, "one", "203.0.113.0/24"), (two, "two", "198.51.100.0/24"))
    ]
    assert client.list(URL, cidr="203.0.113.0/24") == pools[:1]
    floating = client.make("floatingips", floating_network_id=outside, subnet_id=two)
    assert floating["floating_ip_address"].startswith("198.51.100.")
    assert client.post(URL, {"floatingip_pool": {}}).status == 405
