"""Conntrack helpers below routers, as clients use them."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.conntrack_helpers import MAX_HELPERS, ConntrackHelperPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, api
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-07")
FTP = {"protocol": "tcp", "port": 21, "helper": "ftp"}


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    context = plugins[0].context
    return api([*plugins, RouterPlugin(context), ConntrackHelperPlugin(context)])


@pytest.fixture
def path(client: Client) -> str:
    return f"routers/{client.make('routers')['id']}/conntrack_helpers"


def body(**attributes: Any) -> dict[str, Any]:
    return {"conntrack_helper": {**FTP, **attributes}}


def test_the_life_of_a_conntrack_helper(client: Client, path: str) -> None:
    router = path.removesuffix("/conntrack_helpers")
    before = client.get(router).json["router"]
    assert before["conntrack_helpers"] == []
    made = client.post(path, body(protocol="TCP"))
    assert made.status == 201
    helper = made.json["conntrack_helper"]
    assert helper == {**FTP, "id": helper["id"]}
    own = f"{path}/{helper['id']}"
    assert client.get(own).json == {"conntrack_helper": helper}
    after = client.get(router).json["router"]
    assert after["conntrack_helpers"] == [FTP]
    assert after["revision_number"] > before["revision_number"]
    changed = client.put(own, {"conntrack_helper": {"port": 2121}})
    assert (changed.status, changed.json["conntrack_helper"]["port"]) == (200, 2121)
    renamed = client.put(router, {"router": {"name": "edge"}}).json["router"]
    assert renamed["conntrack_helpers"] == [{**FTP, "port": 2121}]
    assert client.delete(own).status == 204
    missing = client.get(own)
    assert (missing.status, missing.error["type"]) == (404, "ConntrackHelperNotFound")
    assert client.get(router).json["router"]["conntrack_helpers"] == []


def test_a_helper_that_no_agent_attaches_is_refused(
    plugins: list[HandlerPlugin], client: Client, path: str
) -> None:
    made = client.post(path, body()).json["conntrack_helper"]
    report = HeartbeatHandler(plugins[0].context)
    report([beat("a", L3_AGENT, extensions=["ndp_proxy"])])
    refused = client.post(path, body(port=2121))
    assert (refused.status, refused.error["type"]) == (409, "RouterExtensionNotLoaded")
    assert "conntrack_helper" in refused.error["message"]
    own = f"{path}/{made['id']}"
    assert client.put(own, {"conntrack_helper": {"port": 2121}}).status == 409
    assert client.delete(own).status == 204
    report([beat("a", L3_AGENT, extensions=["conntrack_helper"])])
    assert client.post(path, body()).status == 201


def test_lists_filters_and_bulk(client: Client, path: str) -> None:
    tftp = {"protocol": "udp", "port": 69, "helper": "tftp"}
    made = client.post(path, {"conntrack_helpers": [FTP, tftp]})
    assert (made.status, len(made.json["conntrack_helpers"])) == (201, 2)

    def found(**filters: Any) -> list[str]:
        listed = client.get(path, **filters).json["conntrack_helpers"]
        return [each["helper"] for each in listed]

    assert found(sort_key="port", sort_dir="desc") == ["tftp", "ftp"]
    assert found(protocol="udp") == ["tftp"]
    assert found(port=21) == ["ftp"]
    other = f"routers/{client.make('routers')['id']}/conntrack_helpers"
    assert client.get(other).json == {"conntrack_helpers": []}
    own = made.json["conntrack_helpers"][0]["id"]
    assert client.get(f"{other}/{own}").status == 404


@pytest.mark.parametrize(
    ("attributes", "type"),
    [
        ({"helper": "quake"}, "ConntrackHelperNotAllowed"),
        ({"helper": "ftp -j DROP"}, "ConntrackHelperNotAllowed"),
        ({"protocol": "udp"}, "InvalidProtocolForHelper"),
        ({"protocol": "sctp"}, "InvalidProtocolForHelper"),
        ({"port": 0}, "InvalidInput"),
        ({"port": 65536}, "InvalidInput"),
        ({}, "BadRequest"),
    ],
)
def test_refused_conntrack_helpers(
    client: Client, path: str, attributes: dict[str, Any], type: str
) -> None:
    assert client.post(path, body()).status == 201
    refused = client.post(path, body(**attributes))
    assert (refused.status, refused.error["type"]) == (400, type)
    assert len(client.get(path).json["conntrack_helpers"]) == 1


def test_a_change_into_another_helper_of_the_router_is_refused(client: Client, path: str) -> None:
    assert client.post(path, body()).status == 201
    second = client.post(path, body(port=2121)).json["conntrack_helper"]["id"]
    refused = client.put(f"{path}/{second}", {"conntrack_helper": {"port": 21}})
    assert (refused.status, refused.error["type"]) == (400, "BadRequest")


def test_a_router_has_no_more_than_a_number_of_helpers(client: Client, path: str) -> None:
    many = [{**FTP, "port": 1000 + number} for number in range(MAX_HELPERS)]
    assert client.post(path, {"conntrack_helpers": many}).status == 201
    refused = client.post(path, body())
    assert (refused.status, refused.error["type"]) == (400, "BadRequest")
    assert str(MAX_HELPERS) in refused.error["message"]


def test_a_change_names_the_revision_of_the_router(client: Client, path: str) -> None:
    own = f"{path}/{client.post(path, body()).json['conntrack_helper']['id']}"
    router = path.removesuffix("/conntrack_helpers")
    current = client.get(router).json["router"]["revision_number"]
    change = {"conntrack_helper": {"port": 2121}}
    stale = client.put(own, change, HTTP_IF_MATCH=f"revision_number={current - 1}")
    assert stale.status == 412
    fresh = client.put(own, change, HTTP_IF_MATCH=f"revision_number={current}")
    assert fresh.status == 200


def test_other_projects_neither_see_nor_change_them(client: Client, path: str) -> None:
    own = f"{path}/{client.post(path, body()).json['conntrack_helper']['id']}"
    bob = client.as_("bob/member")
    assert bob.post(path, body(port=2121)).status in (403, 404)
    assert bob.get(path).status == 404
    assert bob.get(own).status == 404
    assert bob.delete(own).status == 404
    reader = client.as_("alice/reader")
    assert reader.get(own).status == 200
    assert reader.delete(own).status == 403


def test_the_aliases_come_with_the_plugin(client: Client, plugins: list[HandlerPlugin]) -> None:
    aliases = {"l3-conntrack-helper", "expose-l3-conntrack-helper"}
    listed = {each["alias"] for each in client.get("extensions").json["extensions"]}
    assert aliases <= listed
    without = api([*plugins, RouterPlugin(plugins[0].context)])
    listed = {each["alias"] for each in without.get("extensions").json["extensions"]}
    assert not aliases & listed


def test_a_helper_is_named_by_an_id_in_upper_case(client: Client, path: str) -> None:
    made = client.post(path, body()).json["conntrack_helper"]
    own = f"{path}/{made['id'].upper()}"
    assert client.get(own).json == {"conntrack_helper": made}
    assert client.put(own, {"conntrack_helper": {"port": 2121}}).status == 200
    assert client.delete(own).status == 204
