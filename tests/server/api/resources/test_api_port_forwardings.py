"""Port forwardings below floating IPs, as clients use them."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.floating_ips.port_forwardings import PortForwardingPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, api
from tests.server.core.agent_samples import beat
from tests.server.core.core_client import statements

pytestmark = pytest.mark.spec("API-07")


class Site:
    """A floating IP of Alice, and a port of hers behind a router."""

    def __init__(self, alice: Client) -> None:
        self.alice, admin = alice, alice.as_("root/admin")
        outside = admin.make("networks", **{"router:external": True})["id"]
        admin.make("subnets", network_id=outside, cidr="203.0.113.0/24", ip_version=4)
        network = alice.network()["id"]
        subnet = alice.make("subnets", network_id=network, cidr="10.0.0.0/24", ip_version=4)
        gateway = {"network_id": outside}
        router = alice.make("routers", external_gateway_info=gateway)["id"]
        added = alice.put(f"routers/{router}/add_router_interface", {"subnet_id": subnet["id"]})
        assert added.status == 200
        self.port = alice.make("ports", network_id=network)["id"]
        self.floating = alice.make("floatingips", floating_network_id=outside)["id"]
        self.path = f"floatingips/{self.floating}/port_forwardings"

    def body(self, **attributes: Any) -> dict[str, Any]:
        ports = {"external_port": 80, "internal_port": 8080}
        if any("range" in name for name in attributes):
            ports = {}
        return {
            "port_forwarding": {
                "protocol": "tcp",
                "internal_port_id": self.port,
                **ports,
                **attributes,
            }
        }


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    context = plugins[0].context
    return api([*plugins, RouterPlugin(context), PortForwardingPlugin(context)])


@pytest.fixture
def site(client: Client) -> Site:
    return Site(client)


def test_the_life_of_a_port_forwarding(client: Client, site: Site) -> None:
    made = client.post(site.path, site.body(protocol="TCP", description="web"))
    assert made.status == 201
    body = made.json["port_forwarding"]
    times = ("id", "created_at", "updated_at", "project_id", "tenant_id", "revision_number")
    assert {name: value for name, value in body.items() if name not in times} == {
        "protocol": "tcp",
        "description": "web",
        "external_port": 80,
        "external_port_range": "80:80",
        "internal_port": 8080,
        "internal_port_range": "8080:8080",
        "internal_port_id": site.port,
        "internal_ip_address": "10.0.0.2",
    }
    own = f"{site.path}/{body['id']}"
    assert client.get(own).json == {"port_forwarding": body}
    changed = client.put(own, {"port_forwarding": {"internal_port": 8081}})
    assert (changed.status, changed.json["port_forwarding"]["internal_port"]) == (200, 8081)
    assert client.delete(f"floatingips/{site.floating}").status == 409
    assert client.delete(own).status == 204
    missing = client.get(own)
    assert (missing.status, missing.error["type"]) == (404, "PortForwardingNotFound")
    assert client.delete(f"floatingips/{site.floating}").status == 204


def test_ranges_and_filters(client: Client, site: Site) -> None:
    ranges = {"external_port_range": "9000:9009", "internal_port_range": "9000:9009"}
    assert client.post(site.path, site.body(**ranges)).status == 201
    null = {"external_port": None, "internal_port": None, "internal_ip_address": None}
    ranges = {"external_port_range": "53:54", "internal_port_range": "53:53"}
    assert client.post(site.path, site.body(protocol="udp", **ranges, **null)).status == 201
    assert client.post(site.path, site.body()).status == 201

    def found(**filters: Any) -> list[str]:
        listed = client.get(site.path, **filters).json["port_forwardings"]
        return sorted(each["external_port_range"] for each in listed)

    assert found() == ["53:54", "80:80", "9000:9009"]
    assert found(protocol="tcp") == ["80:80", "9000:9009"]
    assert found(external_port=80) == ["80:80"]
    assert found(internal_port_id=site.port, sort_key="protocol") == found()
    other = client.make("floatingips", floating_network_id=_network_of(client, site))["id"]
    assert client.get(f"floatingips/{other}/port_forwardings").json == {"port_forwardings": []}


def _network_of(client: Client, site: Site) -> str:
    body = client.get(f"floatingips/{site.floating}").json["floatingip"]
    return str(body["floating_network_id"])


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"external_port": 70000}, "external_port"),
        ({"external_port": 0}, "external_port"),
        ({"internal_port_range": "9:1", "external_port": 9}, "internal_port_range"),
        ({"external_port_range": "80-90", "internal_port": 80}, "external_port_range"),
        ({"external_port_range": "80:90", "external_port": 80}, "external_port_range"),
        ({"internal_port_range": "1:2"}, "external_port"),
        ({"protocol": "icmp"}, "protocol"),
        ({"internal_port_id": "x"}, "internal_port_id"),
        ({"internal_ip_address": "10.0.0.77"}, "internal_ip_address"),
        ({"internal_ip_address": "2001:db8::1"}, "internal_ip_address"),
        ({"floatingip_id": "x"}, "floatingip_id"),
        ({"name": "x"}, "name"),
    ],
)
def test_wrong_values_are_refused_by_name(
    client: Client, site: Site, wrong: dict[str, Any], path: str
) -> None:
    refused = client.post(site.path, site.body(**wrong))
    assert refused.status == 400
    assert path in refused.error["message"]


def test_a_port_without_a_way_out_is_refused_as_elsewhere(client: Client, site: Site) -> None:
    network = client.network()["id"]
    client.make("subnets", network_id=network, cidr="10.9.0.0/24", ip_version=4)
    port = client.make("ports", network_id=network)["id"]
    refused = client.post(site.path, site.body(internal_port_id=port))
    assert (refused.status, refused.error["type"]) == (400, "BadRequest")
    assert "internal_port_id: no router leads" in refused.error["message"]
    refused = client.put(f"floatingips/{site.floating}", {"floatingip": {"port_id": port}})
    expected = (404, "ExternalGatewayForFloatingIPNotFound")
    assert (refused.status, refused.error["type"]) == expected


def test_what_is_missing_is_named(client: Client, site: Site) -> None:
    refused = client.post(site.path, {"port_forwarding": {"external_port": 80}})
    assert refused.status == 400
    assert "protocol: is required" in refused.error["message"]
    assert "internal_port_id: is required" in refused.error["message"]
    body = site.body()
    del body["port_forwarding"]["internal_port"]
    refused = client.post(site.path, body)
    assert (refused.status, refused.error["message"]) == (400, "internal_port: is required")


@pytest.mark.spec("API-09")
def test_they_belong_to_the_project_of_the_floating_ip(client: Client, site: Site) -> None:
    admin, bob, reader = (client.as_(who) for who in ("root/admin", "bob/member", "alice/reader"))
    made = admin.post(site.path, site.body()).json["port_forwarding"]
    assert made["project_id"] == "alice"
    own = f"{site.path}/{made['id']}"
    assert reader.get(own).json == client.get(own).json
    assert reader.post(site.path, site.body(external_port=81, internal_port=81)).status == 403
    assert reader.put(own, {"port_forwarding": {"description": "x"}}).status == 403
    assert reader.delete(own).status == 403
    for reply in (
        bob.get(site.path),
        bob.get(own),
        bob.post(site.path, site.body(external_port=81, internal_port=81)),
        bob.put(own, {"port_forwarding": {"description": "x"}}),
        bob.delete(own),
    ):
        assert reply.status == 404


def test_aliases_are_those_of_other_servers(client: Client) -> None:
    aliases = {each["alias"] for each in client.get("extensions").json["extensions"]}
    assert aliases >= {
        "expose-port-forwarding-in-fip",
        "floating-ip-port-forwarding",
        "floating-ip-port-forwarding-description",
        "floating-ip-port-forwarding-detail",
        "floating-ip-port-forwarding-port-ranges",
    }


def test_without_the_plugin_nothing_is_served(plugins: list[HandlerPlugin]) -> None:
    client = api([*plugins, RouterPlugin(plugins[0].context)])
    aliases = {each["alias"] for each in client.get("extensions").json["extensions"]}
    assert not any("forwarding" in each for each in aliases)
    assert client.get("floatingips/x/port_forwardings").status == 404


@pytest.mark.spec("API-18")
def test_reasons_of_statuses_are_for_administrators(client: Client, site: Site) -> None:
    path = f"floatingips/{site.floating}"
    assert client.as_("root/admin").get(path).json["floatingip"]["status_reason"] is None
    assert "status_reason" not in client.get(path).json["floatingip"]


def test_a_router_whose_agent_lacks_the_extension_gets_no_port_forwardings(
    plugins: list[HandlerPlugin], client: Client, site: Site
) -> None:
    made = client.post(site.path, site.body()).json["port_forwarding"]
    report = HeartbeatHandler(plugins[0].context)
    report([beat("a", L3_AGENT, extensions=["ndp_proxy"])])
    refused = client.post(site.path, site.body(external_port=81, internal_port=81))
    assert (refused.status, refused.error["type"]) == (409, "RouterExtensionNotLoaded")
    assert "extension port_forwarding" in refused.error["message"]
    own = f"{site.path}/{made['id']}"
    assert client.put(own, {"port_forwarding": {"internal_port": 8081}}).status == 409
    assert client.delete(own).status == 204
    report([beat("a", L3_AGENT, extensions=["port_forwarding"])])
    assert client.post(site.path, site.body()).status == 201


def test_port_forwardings_beyond_the_quota_are_refused_before_anything_is_written(
    client: Client, plugins: list[HandlerPlugin], site: Site
) -> None:
    plugins[0].context.quotas["port_forwarding"] = 2
    bodies = [
        site.body(external_port=number, internal_port=number)["port_forwarding"]
        for number in (80, 81, 82)
    ]
    with statements(plugins[0].context.database) as seen:
        reply = client.post(site.path, {"port_forwardings": bodies})
    assert (reply.status, reply.error["type"]) == (409, "OverQuota")
    assert [each for each in seen if each.startswith(("INSERT", "UPDATE", "DELETE"))] == []
    assert client.post(site.path, {"port_forwardings": bodies[:2]}).status == 201
