"""Local IPs and their associations as clients use them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from netfw.model.local_ip import MAX_PER_PORT
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l2.local_ips import LocalIpPlugin
from tests.server.api.environment import Client, Reply, api
from tests.server.core.agent_samples import beat
from tests.server.core.core_client import statements

pytestmark = pytest.mark.spec("API-07")


class Site:
    """A network of Alice with an IPv4 subnet, local IPs and ports on it."""

    def __init__(self, alice: Client) -> None:
        self.alice = alice
        self.network = alice.network()["id"]
        self.subnet = self.add_subnet("10.0.0.0/24")

    def add_subnet(self, cidr: str, **more: Any) -> str:
        version = 6 if ":" in cidr else 4
        values = {"network_id": self.network, "cidr": cidr, "ip_version": version, **more}
        return str(self.alice.make("subnets", **values)["id"])

    def port(self, *addresses: str, **more: Any) -> dict[str, Any]:
        fixed = {"fixed_ips": [{"ip_address": each} for each in addresses]} if addresses else {}
        return self.alice.make("ports", **{"network_id": self.network, **fixed, **more})

    def local_ip(self, **more: Any) -> dict[str, Any]:
        return self.alice.make("local_ips", **{"network_id": self.network, **more})

    def try_local_ip(self, **body: Any) -> Reply:
        return self.alice.post("local_ips", {"local_ip": body})

    def associate(self, local_ip: dict[str, Any], port: dict[str, Any], **more: Any) -> Reply:
        body = {"fixed_port_id": port["id"], **more}
        path = f"local_ips/{local_ip['id']}/port_associations"
        return self.alice.post(path, {"port_association": body})

    def associations(self, local_ip: dict[str, Any], **filters: Any) -> list[dict[str, Any]]:
        path = f"local_ips/{local_ip['id']}/port_associations"
        found: list[dict[str, Any]] = self.alice.get(path, **filters).json["port_associations"]
        return found


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    plugins[0].context.quotas["local_ip"] = -1
    return api([*plugins, LocalIpPlugin(plugins[0].context)])


@pytest.fixture
def site(client: Client) -> Site:
    return Site(client)


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def test_the_life_of_a_local_ip(client: Client, site: Site) -> None:
    made = site.local_ip(name="dns", description="d")
    assert (made["ip_mode"], made["network_id"], made["name"]) == ("translate", site.network, "dns")
    port = client.get(f"ports/{made['local_port_id']}").json["port"]
    assert (port["device_owner"], port["device_id"]) == ("network:local_ip", made["id"])
    assert [each["ip_address"] for each in port["fixed_ips"]] == [made["local_ip_address"]]
    assert client.get(f"local_ips/{made['id']}").json["local_ip"] == made
    assert client.list("local_ips", local_ip_address=made["local_ip_address"]) == [made]
    renamed = client.put(f"local_ips/{made['id']}", {"local_ip": {"name": "other"}})
    assert renamed.json["local_ip"]["name"] == "other"
    assert renamed.json["local_ip"]["revision_number"] > made["revision_number"]
    assert client.delete(f"local_ips/{made['id']}").status == 204
    assert refused(client.get(f"local_ips/{made['id']}")) == (404, "LocalIPNotFound")
    assert client.get(f"ports/{port['id']}").status == 404


def test_a_local_ip_has_the_address_of_a_given_port(client: Client, site: Site) -> None:
    port = site.port("10.0.0.9")
    for network in (None, client.network()["id"]):  # that of the port counts
        made = client.make("local_ips", network_id=network, local_port_id=port["id"])
        assert (made["network_id"], made["local_ip_address"]) == (site.network, "10.0.0.9")
    assert client.delete(f"local_ips/{made['id']}").status == 204
    assert client.get(f"ports/{port['id']}").status == 200


def test_what_a_local_ip_cannot_be(client: Client, site: Site) -> None:
    none, two = site.port(fixed_ips=[]), site.port("10.0.0.4", "10.0.0.5")
    bare = client.network()["id"]
    for body, status, kind in (
        ({}, 400, "LocalIPPortOrNetworkRequired"),
        ({"network_id": bare}, 400, "BadRequest"),
        ({"local_port_id": none["id"]}, 400, "LocalIPNoIP"),
        ({"local_port_id": two["id"]}, 400, "LocalIPNoRequestedIP"),
        (
            {"local_port_id": two["id"], "local_ip_address": "10.0.0.6"},
            400,
            "LocalIPRequestedIPNotFound",
        ),
        ({"local_port_id": bare}, 400, "BadRequest"),
        ({"network_id": site.network, "local_ip_address": "10.9.0.1"}, 400, "InvalidIpForNetwork"),
        ({"network_id": site.network, "ip_mode": "other"}, 400, "InvalidInput"),
    ):
        assert refused(site.try_local_ip(**body)) == (status, kind), body
    assert client.list("local_ips") == []
    given = site.try_local_ip(local_port_id=two["id"], local_ip_address="10.0.0.5")
    assert given.json["local_ip"]["local_ip_address"] == "10.0.0.5"


def test_only_the_owner_of_a_network_chooses_an_address(client: Client, site: Site) -> None:
    client.as_("root/admin").put(f"networks/{site.network}", {"network": {"shared": True}})
    bob = Site.__new__(Site)
    bob.alice, bob.network = client.as_("bob/member"), site.network
    body = {"network_id": site.network, "local_ip_address": "10.0.0.77"}
    assert bob.try_local_ip(**body).status == 403
    assert bob.try_local_ip(network_id=site.network).status == 201
    assert site.try_local_ip(**body).status == 201


def test_an_association_leads_to_a_port(client: Client, site: Site) -> None:
    local_ip, port = site.local_ip(), site.port("10.0.0.8")
    made = site.associate(local_ip, port).json["port_association"]
    assert made == {
        "local_ip_id": local_ip["id"],
        "local_ip_address": local_ip["local_ip_address"],
        "fixed_port_id": port["id"],
        "fixed_ip": "10.0.0.8",
        "host": "",
    }
    path = f"local_ips/{local_ip['id']}/port_associations/{port['id']}"
    assert client.get(path).json == {"port_association": made}
    assert site.associations(local_ip) == [made]
    assert site.associations(local_ip, fixed_ip="10.0.0.7") == []
    shown = client.get(f"ports/{port['id']}").json["port"]
    assert "local_ips" not in shown
    assert shown["revision_number"] > port["revision_number"]
    assert refused(client.delete(f"local_ips/{local_ip['id']}")) == (409, "LocalIPInUse")
    assert client.delete(path).status == 204
    assert refused(client.get(path)) == (404, "LocalIPAssociationNotFound")
    assert refused(client.delete(path)) == (404, "LocalIPAssociationNotFound")
    assert client.delete(f"local_ips/{local_ip['id']}").status == 204


def test_what_an_association_cannot_be(client: Client, site: Site) -> None:
    local_ip = site.local_ip()
    two, none = site.port("10.0.0.4", "10.0.0.5"), site.port(fixed_ips=[])
    elsewhere = client.make("ports", network_id=client.network()["id"])
    own = {"id": local_ip["local_port_id"]}
    for port, more, kind in (
        (two, {}, "LocalIPNoRequestedIP"),
        (two, {"fixed_ip": "10.0.0.6"}, "LocalIPRequestedIPNotFound"),
        (none, {}, "LocalIPNoIP"),
        (elsewhere, {}, "BadRequest"),
        (own, {}, "BadRequest"),
        ({"id": site.network}, {}, "BadRequest"),
    ):
        assert refused(site.associate(local_ip, port, **more)) == (400, kind), (port, more)
    assert site.associations(local_ip) == []
    assert site.associate(local_ip, two, fixed_ip="10.0.0.5").status == 201
    again = refused(site.associate(local_ip, two, fixed_ip="10.0.0.4"))
    assert again == (409, "LocalIPAssociationExists")


def test_a_port_keeps_the_address_of_a_local_ip(client: Client, site: Site) -> None:
    port = site.port("10.0.0.9")
    client.make("local_ips", local_port_id=port["id"])
    assert refused(client.delete(f"ports/{port['id']}")) == (409, "ServicePortInUse")
    moved = {"port": {"fixed_ips": [{"ip_address": "10.0.0.10"}]}}
    assert refused(client.put(f"ports/{port['id']}", moved)) == (409, "ServicePortInUse")
    more = {"port": {"fixed_ips": [{"ip_address": each} for each in ("10.0.0.9", "10.0.0.10")]}}
    assert client.put(f"ports/{port['id']}", more).status == 200


def test_associations_follow_the_mac_of_the_address(
    plugins: list[HandlerPlugin], client: Client, site: Site
) -> None:
    owner, port = site.port("10.0.0.9"), site.port("10.0.0.8")
    local_ip = client.make("local_ips", local_port_id=owner["id"])
    assert site.associate(local_ip, port).status == 201
    mac = "fa:16:3e:12:34:56"
    changed = client.as_("root/admin").put(f"ports/{owner['id']}", {"port": {"mac_address": mac}})
    assert changed.status == 200, changed.data
    row = plugins[0].context.database.read(
        lambda view: view.resources.get(Kind.PORT, UUID(port["id"]))
    )
    assert [each.mac for each in cast(Port, row.resource()).local_ips] == [mac]


def test_associations_end_with_the_address_of_their_port(client: Client, site: Site) -> None:
    local_ip = site.local_ip()
    lost, gone = site.port("10.0.0.8"), site.port("10.0.0.9")
    for port in (lost, gone):
        assert site.associate(local_ip, port).status == 201
    moved = {"port": {"fixed_ips": [{"ip_address": "10.0.0.10"}]}}
    assert client.put(f"ports/{lost['id']}", moved).status == 200
    assert [each["fixed_port_id"] for each in site.associations(local_ip)] == [gone["id"]]
    assert client.delete(f"ports/{gone['id']}").status == 204
    assert site.associations(local_ip) == []
    assert client.delete(f"local_ips/{local_ip['id']}").status == 204


def test_a_host_without_the_extension_is_refused(
    plugins: list[HandlerPlugin], client: Client, site: Site
) -> None:
    admin, local_ip = client.as_("root/admin"), site.local_ip()
    ports = {}
    for host, extensions in (("ready", ["local_ip"]), ("bare", ["qos"]), ("old", None)):
        said: dict[str, Any] = {} if extensions is None else {"extensions": extensions}
        HeartbeatHandler(plugins[0].context)([beat(host, bridge_mappings={}, **said)])
        ports[host] = site.port()
        bound = {"port": {"binding:host_id": host}}
        assert admin.put(f"ports/{ports[host]['id']}", bound).status == 200
    assert refused(site.associate(local_ip, ports["bare"])) == (409, "LocalIPNotSupported")
    for host in ("ready", "old"):
        assert site.associate(local_ip, ports[host]).json["port_association"]["host"] == host
    assert len(site.associations(local_ip)) == 2


def test_other_projects_see_and_use_nothing(client: Client, site: Site) -> None:
    local_ip, port = site.local_ip(), site.port()
    assert site.associate(local_ip, port).status == 201
    bob = client.as_("bob/member")
    path = f"local_ips/{local_ip['id']}/port_associations"
    assert bob.list("local_ips") == []
    assert bob.get(f"local_ips/{local_ip['id']}").status == 404
    assert bob.get(path).status == bob.get(f"{path}/{port['id']}").status == 404
    assert bob.delete(f"{path}/{port['id']}").status == 404
    body = {"port_association": {"fixed_port_id": port["id"]}}
    assert bob.post(path, body).status in (403, 404)
    reader = client.as_("alice/reader")
    assert len(reader.get(path).json["port_associations"]) == 1
    assert reader.post("local_ips", {"local_ip": {"network_id": site.network}}).status == 403
    assert reader.delete(f"{path}/{port['id']}").status == 403


def test_the_owner_of_a_network_does_not_use_the_ports_of_others(
    client: Client, site: Site
) -> None:
    admin, bob = client.as_("root/admin"), client.as_("bob/member")
    admin.put(f"networks/{site.network}", {"network": {"shared": True}})
    port = bob.make("ports", network_id=site.network)
    assert site.try_local_ip(local_port_id=port["id"]).status == 403
    assert site.associate(site.local_ip(), port).status == 403
    assert bob.get(f"ports/{port['id']}").json["port"]["revision_number"] == 1
    assert bob.delete(f"ports/{port['id']}").status == 204
    theirs = bob.make("ports", network_id=site.network)
    site.alice = admin
    assert site.try_local_ip(local_port_id=theirs["id"]).status == 201


def test_members_get_no_address_of_an_external_network(client: Client, site: Site) -> None:
    admin, bob = client.as_("root/admin"), client.as_("bob/member")
    change = {"network": {"router:external": True}}
    assert admin.put(f"networks/{site.network}", change).status == 200
    body = {"local_ip": {"network_id": site.network}}
    assert bob.post("ports", {"port": {"network_id": site.network}}).status == 403
    assert bob.post("local_ips", body).status == 403
    assert admin.list("ports", device_owner="network:local_ip") == []
    assert client.post("local_ips", body).status == 201
    assert admin.put(f"networks/{site.network}", {"network": {"shared": True}}).status == 200
    assert bob.post("local_ips", body).status == 201


def test_an_association_is_shown_by_an_id_in_upper_case(client: Client, site: Site) -> None:
    local_ip, port = site.local_ip(), site.port()
    assert site.associate(local_ip, port).status == 201
    path = f"local_ips/{local_ip['id'].upper()}/port_associations/{port['id'].upper()}"
    assert client.get(path).status == 200
    assert client.get(path).json["port_association"]["fixed_port_id"] == port["id"]
    assert client.delete(path).status == 204
    assert client.get(path).status == 404


def test_a_port_has_a_bounded_number_of_local_ips(client: Client, site: Site) -> None:
    port, local_port = site.port("10.0.0.8"), site.port("10.0.0.9")
    for _ in range(MAX_PER_PORT):
        local_ip = client.make("local_ips", local_port_id=local_port["id"])
        assert site.associate(local_ip, port).status == 201
    one_more = client.make("local_ips", local_port_id=local_port["id"])
    assert refused(site.associate(one_more, port)) == (400, "InvalidInput")


def test_local_ips_have_a_quota_and_their_ports_none(client: Client, site: Site) -> None:
    admin = client.as_("root/admin")
    assert admin.put("quotas/alice", {"quota": {"local_ip": 1, "port": 0}}).status == 200
    site.local_ip()
    assert refused(site.try_local_ip(network_id=site.network)) == (409, "OverQuota")
    assert len(admin.list("ports", device_owner="network:local_ip")) == 1


def test_local_ips_beyond_the_quota_are_refused_before_ports_are_made(
    client: Client, plugins: list[HandlerPlugin], site: Site
) -> None:
    admin = client.as_("root/admin")
    assert admin.put("quotas/alice", {"quota": {"local_ip": 2}}).status == 200
    bodies = [{"network_id": site.network}] * 3
    with statements(plugins[0].context.database) as seen:
        reply = client.post("local_ips", {"local_ips": bodies})
    assert refused(reply) == (409, "OverQuota")
    assert [each for each in seen if each.startswith(("INSERT", "UPDATE", "DELETE"))] == []
    assert client.post("local_ips", {"local_ips": bodies[:2]}).status == 201


def test_the_alias_is_advertised(client: Client) -> None:
    assert "local_ip" in {each["alias"] for each in client.list("extensions")}
