"""Agents, what they serve, and their zones, through the API."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client
from tests.server.core.agent_samples import beat, grow_old


@pytest.fixture
def admin(client: Client, plugins: list[HandlerPlugin]) -> Client:
    """Return the client of an administrator, with two DHCP agents, one dead, and an OVS agent."""
    context = plugins[0].context
    HeartbeatHandler(context)(
        [beat("a", "DHCP agent", zone="east"), beat("b", "DHCP agent", zone="west"), beat("c")]
    )
    grow_old(context, "b", 100)
    return client.as_("ops/admin")


def agents(client: Client, *query: tuple[str, str]) -> list[Any]:
    return client.list("agents", *query)


@pytest.mark.spec("API-06")
def test_agents_are_listed_filtered_changed_and_forgotten(client: Client, admin: Client) -> None:
    assert agents(client) == []
    assert sorted(each["host"] for each in agents(admin)) == ["a", "b", "c"]
    assert [each["host"] for each in agents(admin, ("alive", "False"))] == ["b"]
    wanted = ("agent_type", "DHCP agent"), ("alive", "True"), ("fields", "host"), ("fields", "id")
    found = agents(admin, *wanted)
    assert [each["host"] for each in found] == ["a"]
    one = f"agents/{found[0]['id']}"
    assert client.get(one).status == 404
    changed = admin.put(one, {"agent": {"admin_state_up": False, "description": "spare"}})
    assert (changed.status, changed.json["agent"]["description"]) == (200, "spare")
    assert admin.put(one, {"agent": {"host": "x"}}).status == 400
    assert admin.delete(one).status == 204
    assert admin.get(one).status == 404


@pytest.mark.spec("API-06")
@pytest.mark.spec("ML2-10")
def test_networks_of_dhcp_agents_are_listed_given_and_taken_away(admin: Client) -> None:
    network = admin.post("networks", {"network": {}}).json["network"]["id"]
    body = {"subnet": {"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4}}
    assert admin.post("subnets", body).status == 201
    found = {each["host"]: each["id"] for each in agents(admin)}
    served, agent = f"agents/{found['a']}/dhcp-networks", f"networks/{network}/dhcp-agents"
    assert [each["id"] for each in admin.get(served).json["networks"]] == [network]
    assert [each["host"] for each in admin.get(agent).json["agents"]] == ["a"]
    assert admin.get(f"networks/{network}").json["network"]["availability_zones"] == ["east"]
    other = f"agents/{found['b']}/dhcp-networks"
    assert admin.post(other, {"network_id": network}).status == 201
    assert admin.post(other, {"network_id": network}).status == 409
    assert len(admin.get(agent).json["agents"]) == 2
    assert admin.delete(f"{other}/{network}").status == 204
    assert admin.delete(f"{other}/{network}").status == 409
    wrong = f"agents/{found['c']}/dhcp-networks"
    assert admin.post(wrong, {"network_id": network}).status == 404
    assert admin.get(wrong).json["networks"] == []


@pytest.mark.spec("API-06")
def test_zones_are_visible_to_all_requesters(client: Client, admin: Client) -> None:
    zones = client.get("availability_zones").json["availability_zones"]
    assert zones == [
        {"name": "east", "resource": "network", "state": "available"},
        {"name": "west", "resource": "network", "state": "unavailable"},
    ]
    assert client.names("availability_zones", name="east") == ["east"]
    assert admin.post("networks", {"network": {"availability_zone_hints": ["moon"]}}).status == 404
