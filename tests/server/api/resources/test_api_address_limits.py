"""Addresses that a member of a shared or an external network can take."""

from __future__ import annotations

import pytest

from tests.server.api.environment import Client


def make_network(client: Client, **attributes: object) -> tuple[str, str]:
    """Return the id of a network of the administrator's, and that of its subnet."""
    admin = client.as_("admins/admin")
    network = admin.make("networks", **attributes)["id"]
    subnet = admin.make("subnets", network_id=network, ip_version=4, cidr="192.0.2.0/24")["id"]
    return network, subnet


def test_one_port_cannot_take_all_addresses_of_a_shared_subnet(client: Client) -> None:
    network, subnet = make_network(client, shared=True)
    body = {"network_id": network, "fixed_ips": [{"subnet_id": subnet}] * 11}
    refused = client.post("ports", {"port": body})
    assert refused.status == 400
    assert "fixed_ips: 11 are more than 10" in refused.error["message"]
    port = client.make("ports", **{**body, "fixed_ips": [{"subnet_id": subnet}] * 10})
    assert len(port["fixed_ips"]) == 10
    more = [*({"subnet_id": subnet, "ip_address": ip["ip_address"]} for ip in port["fixed_ips"])]
    changed = {"port": {"fixed_ips": [*more, {"subnet_id": subnet}]}}
    refused = client.as_("admins/admin").put(f"ports/{port['id']}", changed)
    assert refused.status == 400
    assert "max_fixed_ips_per_port" in refused.error["message"]


def test_ports_of_the_network_itself_have_an_address_on_each_subnet(client: Client) -> None:
    admin = client.as_("admins/admin")
    network = admin.make("networks")["id"]
    subnets = [
        admin.make("subnets", network_id=network, ip_version=4, cidr=f"10.0.{number}.0/24")["id"]
        for number in range(12)
    ]
    fixed = [{"subnet_id": subnet} for subnet in subnets]
    port = admin.make("ports", network_id=network, device_owner="network:dhcp", fixed_ips=fixed)
    assert len(port["fixed_ips"]) == 12


@pytest.mark.spec("API-09")
def test_members_have_no_ports_on_external_networks(client: Client) -> None:
    external, _ = make_network(client, **{"router:external": True})
    refused = client.post("ports", {"port": {"network_id": external}})
    assert refused.status == 403
    bulk = {"ports": [{"network_id": external}]}
    assert client.post("ports", bulk).status == 403
    admin = client.as_("admins/admin")
    assert admin.make("ports", network_id=external)["fixed_ips"]
    shared, _ = make_network(client, **{"router:external": True, "shared": True})
    assert client.make("ports", network_id=shared)["fixed_ips"]
