"""NDP proxies of routers, as clients use them."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.ndp_proxies import NdpProxyPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.subnet_pools.pools import SubnetPoolsPlugin
from tests.server.api.environment import Client, Reply, api
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-07")


class Site:
    """A router of Alice between a network of hers and an external one, in one address scope."""

    def __init__(self, alice: Client) -> None:
        self.alice, self.admin = alice, alice.as_("root/admin")
        admin = self.admin
        scope = admin.make("address-scopes", ip_version=6, shared=True, name="all")
        self.pool = admin.make(
            "subnetpools",
            name="all",
            address_scope_id=scope["id"],
            prefixes=["2001:db8::/32"],
            default_prefixlen=64,
            shared=True,
        )["id"]
        self.outside = admin.make("networks", **{"router:external": True})["id"]
        admin.make("subnets", network_id=self.outside, ip_version=6, subnetpool_id=self.pool)
        self.network = alice.network()["id"]
        self.subnet = self.add_subnet(self.network)
        gateway = {"network_id": self.outside}
        self.router = alice.make("routers", external_gateway_info=gateway, enable_ndp_proxy=True)[
            "id"
        ]
        assert self.connect(self.subnet).status == 200
        port = alice.make("ports", network_id=self.network)
        self.port = port["id"]
        self.address = port["fixed_ips"][0]["ip_address"]

    def add_subnet(self, network: str) -> str:
        made = self.alice.make("subnets", network_id=network, ip_version=6, subnetpool_id=self.pool)
        return str(made["id"])

    def connect(self, subnet: str, action: str = "add") -> Reply:
        path = f"routers/{self.router}/{action}_router_interface"
        return self.alice.put(path, {"subnet_id": subnet})

    def proxy(self, **attributes: Any) -> Reply:
        body = {"router_id": self.router, "port_id": self.port, **attributes}
        return self.alice.post("ndp_proxies", {"ndp_proxy": body})

    def change_router(self, **attributes: Any) -> Reply:
        return self.alice.put(f"routers/{self.router}", {"router": attributes})


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    context = plugins[0].context
    own = [SubnetPoolsPlugin(context), RouterPlugin(context), NdpProxyPlugin(context)]
    return api([*plugins, *own])


@pytest.fixture
def site(client: Client) -> Site:
    return Site(client)


def outcome(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def test_a_proxy_that_no_agent_answers_for_is_refused(
    plugins: list[HandlerPlugin], site: Site
) -> None:
    report = HeartbeatHandler(plugins[0].context)
    report([beat("a", L3_AGENT, extensions=["conntrack_helper"])])
    assert outcome(site.proxy()) == (409, "RouterExtensionNotLoaded")
    report([beat("a", L3_AGENT, extensions=["ndp_proxy"])])
    assert site.proxy().status == 201


def test_the_life_of_an_ndp_proxy(client: Client, site: Site) -> None:
    made = site.proxy(name="web", description="of the shop")
    assert made.status == 201
    body = made.json["ndp_proxy"]
    assert {name: body[name] for name in ("name", "description", "ip_address", "project_id")} == {
        "name": "web",
        "description": "of the shop",
        "ip_address": site.address,
        "project_id": "alice",
    }
    own = f"ndp_proxies/{body['id']}"
    assert client.get(own).json == {"ndp_proxy": body}
    assert client.get("ndp_proxies", router_id=site.router).json == {"ndp_proxies": [body]}
    assert client.get("ndp_proxies", ip_address="2001:db8::5").json == {"ndp_proxies": []}
    changed = client.put(own, {"ndp_proxy": {"name": "shop"}}).json["ndp_proxy"]
    assert (changed["name"], changed["ip_address"]) == ("shop", site.address)
    assert changed["revision_number"] == body["revision_number"] + 1
    assert client.as_("bob/member").get(own).status == 404
    assert client.as_("bob/member").delete(own).status == 404
    assert client.delete(own).status == 204
    assert outcome(client.get(own)) == (404, "NDPProxyNotFound")


def test_a_name_of_null_is_empty_as_the_openstack_command_sends_it(site: Site) -> None:
    made = site.proxy(name=None)
    assert made.status == 201
    assert made.json["ndp_proxy"]["name"] == ""


def test_routers_show_whether_ndp_proxies_are_enabled(client: Client, site: Site) -> None:
    shown = client.get(f"routers/{site.router}").json["router"]
    assert shown["enable_ndp_proxy"] is True
    assert client.make("routers")["enable_ndp_proxy"] is False
    listed = client.get("routers", enable_ndp_proxy=True).json["routers"]
    assert [each["id"] for each in listed] == [site.router]
    assert site.change_router(name="edge").json["router"]["enable_ndp_proxy"] is True
    assert site.change_router(enable_ndp_proxy=False).json["router"]["enable_ndp_proxy"] is False


def test_routers_without_a_valid_gateway_are_refused(client: Client, site: Site) -> None:
    unscoped = site.admin.make("networks", **{"router:external": True})["id"]
    site.admin.make("subnets", network_id=unscoped, ip_version=6, cidr="2001:db9::/64")
    gateway = {"network_id": unscoped}
    for body in ({}, {"external_gateway_info": gateway}):
        request = {"router": {"enable_ndp_proxy": True, **body}}
        assert outcome(client.post("routers", request)) == (409, "RouterGatewayNotValid")
    refused = site.change_router(enable_ndp_proxy=True, external_gateway_info=None)
    assert outcome(refused) == (409, "RouterGatewayNotValid")
    assert site.change_router(external_gateway_info=None).status == 200
    assert client.get(f"routers/{site.router}").json["router"]["enable_ndp_proxy"] is False
    assert outcome(site.change_router(enable_ndp_proxy=True)) == (409, "RouterGatewayNotValid")
    assert outcome(site.proxy()) == (409, "RouterNDPProxyNotEnable")


def test_the_gateway_keeps_its_ipv6_address_while_ndp_proxies_are_enabled(site: Site) -> None:
    only = site.admin.make("subnets", network_id=site.outside, ip_version=4, cidr="203.0.113.0/24")
    info = {"network_id": site.outside, "external_fixed_ips": [{"subnet_id": only["id"]}]}
    changed = site.admin.put(f"routers/{site.router}", {"router": {"external_gateway_info": info}})
    assert outcome(changed) == (409, "RouterIPv6GatewayInUse")


def test_gateway_and_interface_stay_while_ndp_proxies_need_them(client: Client, site: Site) -> None:
    own = f"ndp_proxies/{site.proxy().json['ndp_proxy']['id']}"
    assert outcome(site.change_router(external_gateway_info=None)) == (
        409,
        "RouterGatewayInUseByNDPProxy",
    )
    assert outcome(site.connect(site.subnet, "remove")) == (409, "RouterInterfaceInUseByNDPProxy")
    assert client.delete(own).status == 204
    assert site.connect(site.subnet, "remove").status == 200
    assert site.change_router(external_gateway_info=None).status == 200


def test_a_port_takes_its_ndp_proxies_with_it(client: Client, site: Site) -> None:
    own = f"ndp_proxies/{site.proxy().json['ndp_proxy']['id']}"
    assert client.delete(f"ports/{site.port}").status == 204
    assert client.get(own).status == 404


def test_refused_ndp_proxies(client: Client, site: Site) -> None:
    assert outcome(site.proxy(ip_address="2001:db8::5")) == (400, "InvalidAddress")
    assert outcome(site.proxy(ip_address="blue")) == (400, "InvalidAddress")
    apart = client.network()["id"]
    site.add_subnet(apart)
    far = client.make("ports", network_id=apart)["id"]
    assert outcome(site.proxy(port_id=far)) == (409, "PortUnreachableRouter")
    fixed = [{"subnet_id": site.add_subnet(site.network)}]
    off = client.make("ports", network_id=site.network, fixed_ips=fixed)
    assert outcome(site.proxy(port_id=off["id"])) == (409, "PortUnreachableRouter")
    named = off["fixed_ips"][0]["ip_address"]
    assert outcome(site.proxy(port_id=off["id"], ip_address=named)) == (400, "InvalidAddress")
    assert site.proxy().status == 201
    assert site.proxy().status == 409
    assert client.get("ndp_proxies", fields="ip_address").json == {
        "ndp_proxies": [{"ip_address": site.address}]
    }


def test_ports_without_ipv6_and_of_other_scopes_are_refused(client: Client, site: Site) -> None:
    plain = client.network()["id"]
    four = client.make("subnets", network_id=plain, ip_version=4, cidr="10.0.0.0/24")["id"]
    assert site.connect(four).status == 200
    port = client.make("ports", network_id=plain)["id"]
    assert outcome(site.proxy(port_id=port)) == (400, "BadRequest")
    apart = client.network()["id"]
    six = client.make("subnets", network_id=apart, ip_version=6, cidr="fd00:7::/64")["id"]
    assert site.connect(six).status == 200
    port = client.make("ports", network_id=apart)["id"]
    assert outcome(site.proxy(port_id=port)) == (409, "AddressScopeConflict")


def test_routers_of_other_projects_are_not_found(client: Client, site: Site) -> None:
    bob = client.as_("bob/member")
    body = {"router_id": site.router, "port_id": site.port}
    refused = bob.post("ndp_proxies", {"ndp_proxy": body})
    assert outcome(refused) == (404, "RouterNotFound")
