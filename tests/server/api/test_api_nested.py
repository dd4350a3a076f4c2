"""Resources below others: bindings of ports, and what agents serve."""

from __future__ import annotations

from typing import cast
from uuid import uuid4

import pytest

from netfw.drivers.values.reports import Heartbeat
from netfw.model.agent import Agent
from netfw.model.ids import AgentId
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
    assert admin.post(path, {"binding": {"host": "h2"}}).status == 405


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
