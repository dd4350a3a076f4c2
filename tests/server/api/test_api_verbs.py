"""The verbs of the API, through the real plugins."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.server.api.environment import Client

SOMEONE = str(uuid4())


@pytest.mark.spec("API-01", "API-15")
def test_a_network_is_made_shown_listed_changed_and_deleted(client: Client) -> None:
    made = client.post("networks", {"network": {"name": "blue"}})
    assert made.status == 201
    network = made.json["network"]
    assert network["name"] == "blue"
    assert network["admin_state_up"] is True
    assert network["project_id"] == network["tenant_id"] == "alice"

    path = f"networks/{network['id']}"
    assert client.get(path).json == made.json
    assert client.get(f"{path}.json").json == made.json
    assert client.get("networks").json == {"networks": [network]}
    assert client.get("networks.json").json == {"networks": [network]}
    assert client.get("networks/").json == {"networks": [network]}

    changed = client.put(path, {"network": {"name": "green"}})
    assert (changed.status, changed.json["network"]["name"]) == (200, "green")
    assert changed.json["network"]["revision_number"] > network["revision_number"]

    gone = client.delete(path)
    assert (gone.status, gone.data) == (204, b"")
    assert client.get(path).status == 404
    assert client.get("networks").json == {"networks": []}


@pytest.mark.spec("API-01")
def test_clients_find_versions_resources_and_extensions(client: Client) -> None:
    stranger = client.as_("")
    assert stranger.raw("GET", "/").json == {
        "versions": [
            {
                "id": "v2.0",
                "status": "CURRENT",
                "links": [{"rel": "self", "href": "http://api.example:9696/v2.0/"}],
            }
        ]
    }
    listed = stranger.raw("GET", "/v2.0/").json["resources"]
    names = {each["name"]: each for each in listed}
    assert names["network"] == {
        "name": "network",
        "collection": "networks",
        "links": [{"rel": "self", "href": "http://api.example:9696/v2.0/networks"}],
    }
    assert names["security_group"]["links"][0]["href"].endswith("/v2.0/security-groups")
    assert "binding" not in names
    for each in listed:
        path = each["links"][0]["href"].removeprefix("http://api.example:9696/v2.0/")
        assert each["collection"] in client.as_("ops/admin").get(path).json, each
    aliases = {each["alias"] for each in client.get("extensions").json["extensions"]}
    assert {"provider", "quotas", "standard-attr-tag", "agent"} <= aliases
    assert "router" not in aliases, "nobody keeps routers here"
    assert client.get("extensions/provider").json["extension"]["alias"] == "provider"
    assert client.get("extensions/nonsense").status == 404


@pytest.mark.spec("API-02")
def test_body_is_validated_and_all_problems_are_reported(client: Client) -> None:
    reply = client.post(
        "ports", {"port": {"nmae": "x", "mac_address": "zz", "status": "ACTIVE", "fixed_ips": [{}]}}
    )
    assert reply.status == 400
    assert reply.error["type"] == "HTTPBadRequest"
    message = reply.error["message"]
    assert "nmae: unknown attribute, did you mean 'name'?" in message
    assert "mac_address: " in message
    assert "status: cannot be given when it is made" in message
    assert "fixed_ips[0].subnet_id: is required, or ip_address" in message
    assert "network_id: is required" in message

    network = client.network()
    reply = client.put(f"networks/{network['id']}", {"network": {"id": SOMEONE, "tags": []}})
    assert (reply.status, reply.error["message"]) == (
        400,
        "id: cannot be changed; tags: cannot be changed",
    )


@pytest.mark.spec("API-02")
def test_tenant_and_project_are_one(client: Client) -> None:
    admin = client.as_("root/admin")
    assert admin.network(tenant_id="bob")["project_id"] == "bob"
    assert admin.network(project_id="bob", tenant_id="bob")["tenant_id"] == "bob"
    reply = admin.post("networks", {"network": {"project_id": "bob", "tenant_id": "eve"}})
    assert (reply.status, reply.error["message"]) == (400, "tenant_id: contradicts project_id")
    assert len(admin.list("networks", tenant_id="bob")) == 2
    assert len(admin.list("networks", project_id="bob", tenant_id="bob")) == 2


@pytest.mark.spec("API-02", "API-04")
def test_policy_forbids_what_is_seen_and_hides_what_is_not(client: Client) -> None:
    admin, bob, reader = (client.as_(who) for who in ("root/admin", "bob/member", "alice/reader"))
    network = client.network(name="mine")
    path = f"networks/{network['id']}"
    assert reader.get(path).status == 200
    assert reader.put(path, {"network": {"name": "x"}}).status == 403
    assert reader.delete(path).status == 403
    assert reader.post("networks", {"network": {}}).status == 403
    for refused in (
        bob.get(path),
        bob.put(path, {"network": {"name": "x"}}),
        bob.delete(path),
        bob.put(f"{path}/tags/red"),
        bob.get(f"{path}/tags"),
    ):
        assert (refused.status, refused.error["type"]) == (404, "NetworkNotFound")
    assert bob.list("networks") == []
    assert bob.post("networks", {"network": {"tenant_id": "alice"}}).status == 400

    refused = client.post("networks", {"network": {"shared": True}})
    assert (refused.status, refused.error["type"]) == (403, "PolicyNotAuthorized")
    assert client.put(path, {"network": {"shared": True}}).status == 403
    assert "provider:network_type" not in network
    assert admin.get(path).json["network"]["provider:network_type"] == "vxlan"
    assert admin.put(path, {"network": {"shared": True}}).status == 200
    assert bob.get(path).status == 200
    assert bob.put(path, {"network": {"name": "x"}}).status == 403
    assert client.as_("").get(path).status == 401


@pytest.mark.spec("API-05")
def test_several_are_made_together_or_none(client: Client) -> None:
    made = client.post("networks", {"networks": [{"name": "a"}, {"name": "b"}]})
    assert made.status == 201
    assert [each["name"] for each in made.json["networks"]] == ["a", "b"]
    wrong = client.post("networks", {"networks": [{"name": "c"}, {"name": 7}]})
    assert (wrong.status, wrong.error["message"]) == (400, "networks[1].name: not text: 7")
    forbidden = client.post("networks", {"networks": [{"name": "d"}, {"shared": True}]})
    assert forbidden.status == 403
    admin = client.as_("root/admin")
    admin.put("quotas/alice", {"quota": {"network": 3}})
    over = client.post("networks", {"networks": [{"name": "e"}, {"name": "f"}]})
    assert (over.status, over.error["type"]) == (409, "OverQuota")
    assert client.names("networks", sort_key="name", sort_dir="asc") == ["a", "b"]


@pytest.mark.spec("API-08")
def test_if_match_lets_only_the_known_revision_be_changed(client: Client) -> None:
    network = client.network()
    path, now = f"networks/{network['id']}", network["revision_number"]
    stale = {"HTTP_IF_MATCH": f"revision_number={now + 1}"}
    assert client.put(path, {"network": {"name": "x"}}, **stale).status == 412
    assert client.delete(path, **stale).status == 412
    good = {"HTTP_IF_MATCH": f"revision_number={now}"}
    assert client.put(path, {"network": {"name": "x"}}, **good).status == 200
    assert client.put(path, {"network": {"name": "y"}}, **good).status == 412
    assert client.put(path, {"network": {}}, HTTP_IF_MATCH="etag").status == 400


@pytest.mark.spec("API-08")
def test_tags_are_set_one_by_one_and_together(client: Client) -> None:
    network = client.network(name="tagged", tags=["old"])
    path = f"networks/{network['id']}/tags"
    assert client.get(path).json == {"tags": ["old"]}
    assert (client.put(f"{path}/red").status, client.put(f"{path}/a%2Fb").status) == (201, 201)
    assert client.get(f"{path}/red").status == 204
    assert client.get(path).json == {"tags": ["a/b", "old", "red"]}
    assert client.delete(f"{path}/old").status == 204
    assert client.delete(f"{path}/old").status == 404
    assert client.get(f"{path}/old").status == 404
    replaced = client.put(path, {"tags": ["x", "y"]})
    assert (replaced.status, replaced.json) == (200, {"tags": ["x", "y"]})
    assert client.post(path, {"tags": ["z"]}).json == {"tags": ["x", "y", "z"]}
    client.network(name="plain")
    assert client.names("networks", tags="x,y") == ["tagged"]
    assert client.names("networks", **{"not-tags-any": "x,q"}) == ["plain"]
    assert client.delete(path).status == 204
    assert client.get(path).json == {"tags": []}
    assert client.put(path, {"tags": "x"}).status == 400
    assert client.put(path, {"tags": ["x" * 300]}).status == 400


@pytest.mark.spec("API-06")
def test_quotas_are_shown_changed_and_taken_back(client: Client) -> None:
    admin = client.as_("root/admin")
    assert client.get("quotas/alice").json["quota"]["network"] == 100
    assert client.put("quotas/alice", {"quota": {"network": 5}}).status == 403
    assert admin.put("quotas/alice", {"quota": {"network": 5}}).json["quota"]["network"] == 5
    client.network()
    details = client.get("quotas/alice/details").json["quota"]["network"]
    assert details == {"limit": 5, "used": 1, "reserved": 0}
    assert client.get("quotas/alice/default").json["quota"]["network"] == 100
    assert [each["project_id"] for each in admin.list("quotas")] == ["alice"]
    assert admin.delete("quotas/alice").status == 204
    assert client.get("quotas/alice").json["quota"]["network"] == 100
    assert admin.put("quotas/alice", {"quota": {"nonsense": 5}}).status == 400


def test_ports_get_defaults_that_clients_expect(client: Client) -> None:
    admin = client.as_("root/admin")
    network = client.network()
    subnet = client.make("subnets", network_id=network["id"], cidr="192.0.2.7/24", ip_version=4)
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("192.0.2.0/24", "192.0.2.1")
    port = client.make("ports", network_id=network["id"])
    assert "binding:vif_type" not in port
    assert port["binding:vnic_type"] == "normal"
    whole = admin.get(f"ports/{port['id']}").json["port"]
    assert (whole["status"], whole["binding:vif_type"]) == ("DOWN", "unbound")
    assert len(whole["security_groups"]) == len(whole["fixed_ips"]) == 1
    address = whole["fixed_ips"][0]["ip_address"]
    found = client.list("ports", fixed_ips=f"ip_address={address}")
    assert [each["id"] for each in found] == [port["id"]]
    assert client.list("ports", fixed_ips="ip_address=192.0.2.250") == []
    changed = client.put(f"ports/{port['id']}", {"port": {"security_groups": None}})
    assert changed.json["port"]["security_groups"] == []


@pytest.mark.spec("API-07")
def test_a_user_without_a_role_sees_nothing_of_the_project(client: Client) -> None:
    network = client.network()["id"]
    client.make("subnets", network_id=network, cidr="192.0.2.0/24")
    client.make("ports", network_id=network)
    client.make("security-groups", name="g")
    guest = client.as_("alice/none")
    for collection in (
        "networks",
        "subnets",
        "ports",
        "security-groups",
        "security-group-rules",
    ):
        shown = client.list(collection)
        assert shown
        assert guest.list(collection) == [], collection
        assert guest.get(f"{collection}/{shown[0]['id']}").status == 404
