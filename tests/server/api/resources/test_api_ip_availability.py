"""Used addresses of networks."""

from __future__ import annotations

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l2.ip_availability import IpAvailabilityPlugin
from tests.server.api.environment import Client, api

URL = "network-ip-availabilities"
KEY = "network_ip_availability"


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    plugins.append(IpAvailabilityPlugin(plugins[0].context))
    return api(plugins)


@pytest.mark.spec("API-07")
def test_addresses_are_counted_by_network_and_subnet(client: Client) -> None:
    admin = client.as_("root/admin")
    network = client.network(name="counted")["id"]
    empty = admin.get(f"{URL}/{network}").json[KEY]
    assert (empty["total_ips"], empty["used_ips"], empty["network_name"]) == (0, 0, "counted")
    v4 = client.make("subnets", network_id=network, cidr="10.0.0.0/29", name="four")["id"]
    v6 = client.make("subnets", network_id=network, cidr="fd00::/64", ip_version=6)["id"]
    ports = [client.make("ports", network_id=network)["id"] for _ in range(2)]
    reply = admin.get(f"{URL}/{network}").json[KEY]
    by_subnet = {each["subnet_id"]: each for each in reply["subnet_ip_availability"]}
    assert by_subnet[v4] == {
        "subnet_id": v4, "subnet_name": "four", "cidr": "10.0.0.0/29", "ip_version": 4,
        "total_ips": 5, "used_ips": 2,
    }  # fmt: skip
    assert by_subnet[v6]["total_ips"] == 2**64 - 1
    assert (reply["total_ips"], reply["used_ips"]) == (5 + 2**64 - 1, 4)
    assert admin.get(f"{URL}/{network.upper()}").json[KEY] == reply
    assert client.delete(f"ports/{ports[0]}").status == 204
    assert admin.get(f"{URL}/{network}").json[KEY]["used_ips"] == 2


@pytest.mark.spec("API-07")
def test_networks_are_found_by_id_name_project_and_version(client: Client) -> None:
    admin = client.as_("root/admin")
    wanted = client.network(name="wanted")["id"]
    other = client.as_("bob/member").network(name="other")["id"]
    client.make("subnets", network_id=wanted, cidr="10.0.0.0/29")
    client.make("subnets", network_id=wanted, cidr="fd00::/64", ip_version=6)

    def found(**filters: str) -> list[str]:
        key = "network_ip_availabilities"
        return [each["network_id"] for each in admin.get(URL, **filters).json[key]]

    assert set(found()) == {wanted, other}
    assert found(network_id=wanted) == found(network_name="wanted") == [wanted]
    assert found(project_id="bob") == found(tenant_id="bob") == [other]
    assert found(network_id="33") == []
    (four,) = admin.get(URL, network_id=wanted, ip_version="4").json["network_ip_availabilities"]
    assert four["total_ips"] == 5
    assert [each["ip_version"] for each in four["subnet_ip_availability"]] == [4]
    first = found(sort_key="network_name", limit="1")
    assert first == [other]
    assert found(sort_key="network_name", marker=other) == [wanted]


@pytest.mark.spec("API-07")
def test_only_administrators_see_them(client: Client) -> None:
    network = client.network()["id"]
    assert client.get(f"{URL}/{network}").status == 404
    assert client.get(URL).json == {"network_ip_availabilities": []}
    missing = client.as_("root/admin").get(f"{URL}/33")
    assert (missing.status, missing.error["type"]) == (404, "NetworkNotFound")
