"""Resources below others: bindings of ports, and what agents serve."""

from __future__ import annotations

from typing import cast
from uuid import uuid4

import pytest

from netfw.drivers.values.reports import Heartbeat
from netfw.model.agent import Agent
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.ml2.plugin import Ml2Plugin
from tests.server.api.environment import Client, api


@pytest.mark.spec("API-06")
def test_bindings_of_a_port_tell_how_it_is_bound(client: Client) -> None:
    admin = client.as_("root/admin")
    network = client.network()
    port = admin.make("ports", network_id=network["id"], project_id="alice")
    path = f"ports/{port['id']}/bindings"
    assert admin.get(path).json == {"bindings": []}
    admin.put(f"ports/{port['id']}", {"port": {"binding:host_id": "h1"}})
    (binding,) = admin.get(path).json["bindings"]
    assert (binding["host"], binding["vif_type"]) == ("h1", "binding_failed")
    assert admin.get(f"{path}/h1").json == {"binding": binding}
    assert admin.get(f"{path}/h2").status == 404
    assert admin.get(path, host="h2").json == {"bindings": []}
    assert client.get(path).json == {"bindings": []}, "where a port is bound is for services"
    assert client.as_("bob/member").get(path).status == 404
    assert client.post(path, {"binding": {"host": "h2"}}).status == 403


@pytest.mark.spec("ML2-08", "API-06")
def test_a_port_is_migrated_by_its_bindings(plugins: list[HandlerPlugin]) -> None:
    client = api(plugins)
    admin = client.as_("root/admin")
    agents = [
        Agent(
            id=AgentId(uuid4()),
            agent_type="Open vSwitch agent",
            binary="netfw-ovs-agent",
            host=host,
            configurations=JsonDocument({"tunnel_types": ["vxlan"], "tunneling_ip": address}),
        )
        for host, address in (("h1", "192.0.2.1"), ("h2", "192.0.2.2"))
    ]
    beats = [Heartbeat(agent=each, counts={}, start=True) for each in agents]
    cast(Ml2Plugin, plugins[0]).handle_reports(beats)
    aliases = {each["alias"] for each in admin.get("extensions").json["extensions"]}
    assert "binding-extended" in aliases
    given = {"binding:host_id": "h1", "device_owner": "compute:nova"}
    port = admin.make("ports", network_id=admin.network()["id"], **given)
    path = f"ports/{port['id']}/bindings"
    made = admin.post(path, {"binding": {"host": "h2"}})
    assert (made.status, made.json["binding"]["status"]) == (201, "INACTIVE")
    assert admin.get(f"{path}/h2").json == made.json
    assert {each["host"] for each in admin.get(path, status="INACTIVE").json["bindings"]} == {"h2"}
    assert admin.post(path, {"binding": {"host": "h2"}}).status == 409
    assert admin.post(path, {"binding": {"host": "h9"}}).status == 400
    assert admin.post(path, {"binding": {}}).status == 400
    assert admin.put(f"{path}/h9/activate", {}).status == 404
    assert client.as_("root/member").put(f"{path}/h2/activate", {}).status in (403, 404)
    activated = admin.put(f"{path}/h2/activate", {})
    assert (activated.status, activated.json) == (200, {**made.json["binding"], "status": "ACTIVE"})
    assert admin.get(f"ports/{port['id']}").json["port"]["binding:host_id"] == "h2"
    assert admin.put(f"{path}/h1/activate", {"binding": {"host": "h1"}}).status == 200
    changed = admin.put(f"{path}/h2", {"binding": {"profile": {"a": "b"}}})
    assert (changed.status, changed.json["binding"]["profile"]) == (200, {"a": "b"})
    assert admin.delete(f"{path}/h1").status == 409
    assert admin.delete(f"{path}/h2").status == 204
    assert admin.get(f"{path}/h2").status == 404


@pytest.mark.spec("API-01", "API-06")
def test_networks_are_given_to_dhcp_agents_and_taken_from_them(
    plugins: list[HandlerPlugin],
) -> None:
    admin = api(plugins).as_("root/admin")
    agents = [
        Agent(id=AgentId(uuid4()), agent_type="DHCP agent", binary="netfw-dhcp-agent", host=host)
        for host in ("h1", "h2")
    ]
    beats = [Heartbeat(agent=each, counts={}, start=True) for each in agents]
    cast(Ml2Plugin, plugins[0]).handle_reports(beats)
    shown = {each["host"]: each["id"] for each in admin.list("agents", agent_type="DHCP agent")}
    assert set(shown) == {"h1", "h2"}
    network = admin.network()["id"]
    path = f"agents/{shown['h1']}/dhcp-networks"
    made = admin.post(path, {"network_id": network})
    assert (made.status, made.json) == (201, {"network_id": network})
    assert admin.post(path, {"network_id": network}).status == 409
    assert admin.post(path, {"network_id": str(uuid4())}).status == 404
    assert [each["id"] for each in admin.get(path).json["networks"]] == [network]
    serving = admin.get(f"networks/{network}/dhcp-agents").json["agents"]
    assert [each["host"] for each in serving] == ["h1"]
    assert admin.get(f"agents/{shown['h2']}/dhcp-networks").json == {"networks": []}
    assert admin.delete(f"{path}/{network}").status == 204
    assert admin.delete(f"{path}/{network}").status == 409
    assert admin.get(f"networks/{network}/dhcp-agents").json == {"agents": []}
    assert admin.get(f"networks/{uuid4()}/dhcp-agents").status == 404
    member = admin.as_("alice/member")
    assert member.get(path).status == 404, "agents are for administrators"
    changed = admin.put(f"agents/{shown['h2']}", {"agent": {"admin_state_up": False}})
    assert changed.json["agent"]["admin_state_up"] is False
