"""What clients have become used to, and Tempest with them."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import event

from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client


@pytest.mark.spec("API-05")
def test_subnets_are_found_by_whether_their_network_is_shared(client: Client) -> None:
    admin = client.as_("cloud/admin")
    for name, shared in (("mine", False), ("ours", True)):
        network = admin.network(name=name, shared=shared)
        subnet = {"ip_version": 4, "cidr": "10.0.0.0/24", "network_id": network["id"]}
        admin.make("subnets", name=name, **subnet)
    assert admin.names("subnets", shared="True") == ["ours"]
    assert admin.names("subnets", shared="False") == ["mine"]
    assert client.names("subnets", shared="False") == []
    assert admin.names("subnets", shared="True", network_id=network["id"]) == ["ours"]
    assert admin.names("subnets", shared="False", network_id=network["id"]) == []


@pytest.mark.spec("API-05")
def test_subnets_of_shared_networks_are_found_among_more_networks_than_a_statement_has_values(
    client: Client, plugins: list[HandlerPlugin]
) -> None:
    admin = client.as_("cloud/admin")
    networks = admin.post("networks", {"networks": [{"name": f"n{at}"} for at in range(60)]})
    network = networks.json["networks"][59]["id"]
    admin.make("subnets", name="one", ip_version=4, cidr="10.0.0.0/24", network_id=network)
    reading = plugins[0].context.database.reading
    event.listen(reading, "connect", _allow_fifty_values)
    reading.dispose()
    assert admin.get("networks", ("id", network)).status == 200
    assert admin.names("subnets", shared="False") == ["one"]
    assert admin.names("subnets", shared="True") == []


def _allow_fifty_values(connection: sqlite3.Connection, _: object) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 50)


@pytest.mark.spec("API-05")
def test_several_may_each_be_wrapped_as_if_they_were_alone(client: Client) -> None:
    wrapped = [{"network": {"name": "a"}}, {"name": "b"}]
    made = client.post("networks", {"networks": wrapped})
    assert [each["name"] for each in made.json["networks"]] == ["a", "b"]


@pytest.mark.spec("API-05")
def test_from_an_empty_page_behind_the_last_there_is_a_way_back(client: Client) -> None:
    for name in "abc":
        client.network(name=name)
    last = client.list("networks", sort_key="name")[-1]
    page = {"sort_key": "name", "limit": "2"}
    empty = client.get("networks", marker=last["id"], **page).json
    assert empty["networks"] == []
    (link,) = empty["networks_links"]
    assert link["rel"] == "previous"
    back = client.raw("GET", "/v2.0/networks", query=link["href"].partition("?")[2]).json
    assert [each["name"] for each in back["networks"]] == ["b", "c"]


@pytest.mark.spec("API-04")
def test_refusals_have_the_words_that_clients_look_for(client: Client) -> None:
    network = client.network()
    subnet = {"ip_version": 4, "cidr": "10.0.0.0/24", "network_id": network["id"]}
    client.make("subnets", **subnet)
    taken = client.post("subnets", {"subnet": subnet})
    assert (taken.status, "overlaps with another subnet" in taken.error["message"]) == (400, True)
    client.make("ports", network_id=network["id"])
    used = client.delete(f"networks/{network['id']}")
    assert used.status == 409
    assert "There are one or more ports still in use on the network" in used.error["message"]
    assert "in use by 1 port;" in used.error["message"]
    for_bob = client.post("networks", {"network": {"project_id": "bob"}})
    assert for_bob.status == 400
