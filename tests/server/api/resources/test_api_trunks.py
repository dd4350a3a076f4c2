"""Trunks as clients use them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l2.trunks import TrunkPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, Reply, api
from tests.server.core.core_client import statements

pytestmark = pytest.mark.spec("API-07", "L2-81")
READING_ACTIONS = ("trunks/{}/get_subports", "quotas/alice/details")


class Site:
    """Ports of Alice, each on a network of its own unless said."""

    def __init__(self, alice: Client) -> None:
        self.alice = alice
        self.network = alice.network()["id"]
        self.parent = self.port()

    def port(self, **attributes: Any) -> str:
        return str(self.alice.make("ports", **{"network_id": self.network, **attributes})["id"])

    def sub(self, tag: int, **attributes: Any) -> dict[str, Any]:
        return {
            "port_id": self.port(**attributes),
            "segmentation_type": "vlan",
            "segmentation_id": tag,
        }

    def trunk(self, *subs: dict[str, Any], **attributes: Any) -> dict[str, Any]:
        return self.alice.make(
            "trunks", **{"port_id": self.parent, "sub_ports": list(subs), **attributes}
        )

    def act(self, trunk: dict[str, Any], action: str, *subs: dict[str, Any]) -> Reply:
        return self.alice.put(f"trunks/{trunk['id']}/{action}", {"sub_ports": list(subs)})


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    plugins[0].context.quotas["trunk"] = -1
    return api([*plugins, TrunkPlugin(plugins[0].context)])


@pytest.fixture
def site(client: Client) -> Site:
    return Site(client)


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def test_the_life_of_a_trunk(client: Client, site: Site) -> None:
    first, second = site.sub(100), site.sub(200)
    trunk = site.trunk(first, name="uplinks", tags=["a"])
    assert (trunk["status"], trunk["sub_ports"], trunk["tags"]) == ("DOWN", [first], ["a"])
    added = site.act(trunk, "add_subports", second)
    assert (added.status, added.json["sub_ports"]) == (200, [first, second])
    assert added.json["revision_number"] > trunk["revision_number"]
    subs = client.get(f"trunks/{trunk['id']}/get_subports")
    assert (subs.status, subs.json) == (200, {"sub_ports": [first, second]})
    left = site.act(trunk, "remove_subports", {"port_id": first["port_id"]})
    assert left.json["sub_ports"] == [second]
    renamed = client.put(f"trunks/{trunk['id']}", {"trunk": {"name": "other"}})
    assert (renamed.json["trunk"]["name"], renamed.json["trunk"]["sub_ports"]) == (
        "other",
        [second],
    )
    assert client.put(f"trunks/{trunk['id']}/tags/b").status in (200, 201)
    assert client.delete(f"trunks/{trunk['id']}").status == 204
    assert refused(client.get(f"trunks/{trunk['id']}")) == (404, "TrunkNotFound")
    for port in (site.parent, first["port_id"], second["port_id"]):
        assert client.delete(f"ports/{port}").status == 204


def test_ports_show_the_details_of_their_trunk(client: Client, site: Site) -> None:
    sub = site.sub(100)
    trunk = site.trunk(sub)
    shown = client.get(f"ports/{sub['port_id']}").json["port"]
    assert shown["device_owner"] == "trunk:subport"
    assert not {"trunk", "trunk_details"} & shown.keys()
    parent = client.get(f"ports/{site.parent}").json["port"]
    details = {"trunk_id": trunk["id"], "sub_ports": [{**sub, "mac_address": shown["mac_address"]}]}
    assert parent["trunk_details"] == details
    (listed,) = client.list("ports", id=site.parent)
    assert listed["trunk_details"] == details
    assert site.act(trunk, "remove_subports", sub).status == 200
    assert client.get(f"ports/{sub['port_id']}").json["port"]["device_owner"] == ""
    assert client.get(f"ports/{site.parent}").json["port"]["trunk_details"]["sub_ports"] == []
    assert client.delete(f"trunks/{trunk['id']}").status == 204
    assert "trunk_details" not in client.get(f"ports/{site.parent}").json["port"]


def test_lists_cost_the_same_however_many_trunks_there_are(
    client: Client, site: Site, plugins: list[HandlerPlugin]
) -> None:
    site.trunk(site.sub(1))
    with statements(plugins[0].context.database) as one:
        client.list("trunks")
        client.list("ports")
    for tag in range(2, 6):
        site.parent = site.port()
        site.trunk(site.sub(tag), site.sub(tag + 100))
    with statements(plugins[0].context.database) as many:
        assert len(client.list("trunks")) == 5
        client.list("ports")
    assert len(many) == len(one)


def test_filters_and_order(client: Client, site: Site) -> None:
    first = site.trunk(name="b")
    site.parent = site.port()
    second = site.trunk(name="a", admin_state_up=False)
    assert client.names("trunks", sort_key="name") == ["a", "b"]
    assert client.names("trunks", port_id=second["port_id"]) == ["a"]
    assert client.names("trunks", admin_state_up="false") == ["a"]
    assert sorted(client.names("trunks", status="DOWN")) == ["a", "b"]
    assert client.names("trunks", status="ACTIVE") == []
    ordered = sorted([first["id"], second["id"]])
    paged = client.list("trunks", sort_key="status", limit=1, marker=ordered[0])
    assert [each["id"] for each in paged] == ordered[1:]


def test_other_projects_have_no_part_in_it(client: Client, site: Site) -> None:
    trunk = site.trunk()
    bob = client.as_("bob/member")
    assert bob.list("trunks") == []
    assert bob.get(f"trunks/{trunk['id']}").status == 404
    assert refused(bob.post("trunks", {"trunk": {"port_id": site.port()}})) == (404, "PortNotFound")
    reader = client.as_("alice/reader")
    assert reader.get(f"trunks/{trunk['id']}/get_subports").status == 200
    assert reader.put(f"trunks/{trunk['id']}/add_subports", {"sub_ports": []}).status == 403
    root = client.as_("root/admin")
    assert [each["id"] for each in root.list("trunks")] == [trunk["id"]]


def test_a_port_is_in_one_trunk(client: Client, site: Site) -> None:
    sub = site.sub(5)
    trunk = site.trunk(sub)
    again = client.post("trunks", {"trunk": {"port_id": site.parent}})
    assert refused(again) == (409, "ParentPortInUse")
    below = client.post("trunks", {"trunk": {"port_id": sub["port_id"]}})
    assert refused(below) == (409, "TrunkPortInUse")
    itself = {"port_id": site.parent, "segmentation_type": "vlan", "segmentation_id": 9}
    assert refused(site.act(trunk, "add_subports", itself)) == (409, "ParentPortInUse")
    twice = {**sub, "segmentation_id": 9}
    assert refused(site.act(trunk, "add_subports", twice)) == (409, "TrunkPortInUse")
    other = {"trunk": {"port_id": site.port(), "sub_ports": [itself]}}
    assert refused(client.post("trunks", other)) == (409, "ParentPortInUse")
    device = site.sub(9, device_id="server-1")
    assert refused(site.act(trunk, "add_subports", device)) == (409, "PortInUse")
    assert refused(site.act(trunk, "add_subports", site.sub(5))) == (409, "DuplicateSubPort")
    missing = {"port_id": site.port()}
    assert refused(site.act(trunk, "remove_subports", missing)) == (404, "SubPortNotFound")
    gone = client.delete(f"ports/{site.parent}")
    assert refused(gone) == (409, "PortInUseAsTrunkParent")
    gone = client.delete(f"ports/{sub['port_id']}")
    assert refused(gone) == (409, "PortInUseAsSubPort")


def test_a_router_takes_no_port_of_a_trunk(plugins: list[HandlerPlugin]) -> None:
    context = plugins[0].context
    context.quotas["trunk"] = -1
    client = api([*plugins, TrunkPlugin(context), RouterPlugin(context)])
    site, router = Site(client), client.make("routers")["id"]
    client.make("subnets", network_id=site.network, cidr="192.0.2.0/24", ip_version=4)
    site.parent, sub = site.port(), site.sub(5)
    site.trunk(sub)
    for port in (site.parent, sub["port_id"]):
        reply = client.put(f"routers/{router}/add_router_interface", {"port_id": port})
        assert refused(reply) == (409, "PortInUse")
        assert client.get(f"ports/{port}").json["port"]["device_id"] == ""


def test_bulk_creation_sees_its_own_ports(client: Client, site: Site) -> None:
    sub, parent = site.sub(5), site.port()
    bodies = [{"port_id": site.parent, "sub_ports": [sub]}, {"port_id": parent, "sub_ports": [sub]}]
    assert refused(client.post("trunks", {"trunks": bodies})) == (409, "TrunkPortInUse")
    bodies[1]["sub_ports"] = [site.sub(5)]
    made = client.post("trunks", {"trunks": bodies})
    assert (made.status, len(made.json["trunks"])) == (201, 2)


def test_a_disabled_trunk_is_not_changed(client: Client, site: Site) -> None:
    sub = site.sub(5)
    trunk = site.trunk(sub, admin_state_up=False)
    assert refused(site.act(trunk, "add_subports", site.sub(6))) == (409, "TrunkDisabled")
    assert refused(site.act(trunk, "remove_subports", sub)) == (409, "TrunkDisabled")
    assert refused(client.delete(f"trunks/{trunk['id']}")) == (409, "TrunkDisabled")
    client.put(f"trunks/{trunk['id']}", {"trunk": {"admin_state_up": True}})
    assert client.delete(f"trunks/{trunk['id']}").status == 204


def test_ports_of_the_network_itself_are_no_parents(client: Client, site: Site) -> None:
    admin = client.as_("root/admin")
    port = admin.make("ports", network_id=site.network, device_owner="network:dhcp")["id"]
    reply = admin.post("trunks", {"trunk": {"port_id": port}})
    assert refused(reply) == (409, "ParentPortInUse")


def test_a_sub_port_has_no_larger_packets_than_its_parent(client: Client, site: Site) -> None:
    site.parent = site.port(network_id=client.network(mtu=1300)["id"])
    body = {"trunk": {"port_id": site.parent, "sub_ports": [site.sub(5)]}}
    assert refused(client.post("trunks", body)) == (409, "SubPortMtuGreaterThanTrunkPortMtu")
    small = client.network(mtu=1300)["id"]
    assert site.trunk(site.sub(5, network_id=small))["sub_ports"]


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"segmentation_id": 0}, "sub_ports[0].segmentation_id"),
        ({"segmentation_id": 4095}, "sub_ports[0].segmentation_id"),
        ({"segmentation_id": "x"}, "segmentation_id"),
        ({"segmentation_id": None}, "sub_ports[0].segmentation_id"),
        ({"segmentation_type": "qinq"}, "sub_ports[0].segmentation_type"),
        ({"segmentation_type": "inherit"}, "sub_ports[0].segmentation_type"),
        ({"port_id": "x"}, "port_id"),
        ({"vlan": 4}, "vlan"),
    ],
)
def test_wrong_sub_ports_are_refused_by_name(
    site: Site, client: Client, wrong: dict[str, Any], path: str
) -> None:
    body = {"port_id": site.parent, "sub_ports": [{**site.sub(5), **wrong}]}
    reply = client.post("trunks", {"trunk": body})
    assert reply.status == 400
    assert path in reply.error["message"]


@pytest.mark.parametrize("missing", ["segmentation_id", "segmentation_type", "port_id"])
def test_sub_ports_are_complete(site: Site, client: Client, missing: str) -> None:
    sub = {name: value for name, value in site.sub(5).items() if name != missing}
    body = {"port_id": site.parent, "sub_ports": [sub]}
    reply = client.post("trunks", {"trunk": body})
    assert reply.status == 400
    assert missing in reply.error["message"]


def test_tags_and_ports_are_unique_in_a_request(site: Site, client: Client) -> None:
    for subs in ([site.sub(5), site.sub(5)], [sub := site.sub(5), {**sub, "segmentation_id": 6}]):
        reply = client.post("trunks", {"trunk": {"port_id": site.parent, "sub_ports": subs}})
        assert reply.status == 400
        assert "is there twice" in reply.error["message"]
    text = {**site.sub(5), "segmentation_id": "7"}
    assert site.trunk(text)["sub_ports"][0]["segmentation_id"] == 7


def test_trunks_have_a_quota(client: Client, site: Site) -> None:
    admin = client.as_("root/admin")
    assert admin.put("quotas/alice", {"quota": {"trunk": 1}}).status == 200
    site.trunk()
    refusal = client.post("trunks", {"trunk": {"port_id": site.port()}})
    assert refused(refusal) == (409, "OverQuota")


def test_the_aliases_are_served(client: Client) -> None:
    aliases = {each["alias"] for each in client.list("extensions")}
    assert {"trunk", "trunk-details"} <= aliases


@pytest.mark.parametrize("path", READING_ACTIONS)
def test_actions_that_only_read_are_served_while_another_process_writes(
    site: Site, tmp_path: Path, path: str
) -> None:
    trunk = site.trunk(site.sub(100))
    with closing(sqlite3.connect(tmp_path / "netfw.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert site.alice.get(path.format(trunk["id"])).status == 200
