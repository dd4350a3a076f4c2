"""Agents: what heartbeats change, and what people do to them."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import evolve
from sqlalchemy import event, text

from netfw.drivers.server.query import Query, RequestContext
from netfw.drivers.values.reports import Heartbeat
from netfw.errors import InvalidInput, NotFound, NotSupported
from netfw.model.values.ids import AgentId
from netfw.server.agents.agents import AgentHandler, agents
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.server_context import ServerContext
from tests.server.core.agent_samples import ADMIN, HandlersOnly, beat, grow_old


@pytest.fixture
def plugin(context: ServerContext) -> HandlersOnly:
    return HandlersOnly(context, [AgentHandler(context.settings)])


@pytest.fixture
def handler(context: ServerContext) -> HeartbeatHandler:
    return HeartbeatHandler(context)


def listed(plugin: HandlersOnly, **filters: Any) -> list[Any]:
    query = Query(filters={name: (value,) for name, value in filters.items()})
    return list(plugin.find(ADMIN, "agent", query))


@pytest.mark.spec("API-06")
def test_an_agent_without_a_heartbeat_is_found_among_the_dead(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    handler([beat(), beat("b")])
    (silent,) = listed(plugin, host="a")
    context.database.transaction(lambda tx: tx.heartbeats.delete(UUID(silent["id"])))
    assert [each["host"] for each in listed(plugin, alive=False)] == ["a"]
    assert [each["host"] for each in listed(plugin, alive=True)] == ["b"]
    assert listed(plugin, alive=False, host="b") == []
    both = Query(filters={"alive": (True, False)})
    assert len(plugin.find(ADMIN, "agent", both)) == 2


@pytest.mark.spec("RPC-03")
@pytest.mark.spec("API-06")
def test_an_agent_is_there_with_its_first_heartbeat_and_dead_when_it_is_silent(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    handler([beat(start=True, counts={"devices": 3}), beat("b", "DHCP agent", zone="z")])
    one, two = sorted(listed(plugin), key=lambda each: each["host"])
    assert one["alive"]
    assert one["admin_state_up"]
    assert one["host"] == "a"
    assert one["configurations"] == {"devices": 3, "tunneling_ip": "192.0.2.1"}
    assert one["heartbeat_timestamp"] >= one["started_at"] > "2026"
    assert two["availability_zone"] == "z"
    grow_old(context, "a", 76)
    assert [each["host"] for each in listed(plugin, alive=True)] == ["b"]
    assert [each["host"] for each in listed(plugin, alive="False")] == ["a"]
    assert listed(plugin, alive=True, host="a") == []
    assert listed(plugin, alive=True, id=two["id"])[0]["host"] == "b"
    assert listed(plugin, agent_type="DHCP agent", binary="netfw-agent")[0]["id"] == two["id"]
    assert listed(plugin, availability_zone="z")[0]["id"] == two["id"]
    assert not plugin.show(ADMIN, "agent", one["id"])["alive"]
    with pytest.raises(InvalidInput, match="alive"):
        listed(plugin, alive="perhaps")
    known = context.read(lambda view: agents(view, context.settings, host="a"))
    assert [(each.alive, each.heartbeat_at is None) for each in known] == [(False, False)]


@pytest.mark.spec("RPC-03")
def test_an_equal_heartbeat_changes_nothing_and_a_new_one_raises_the_revision(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    handler([beat()])
    first, cursor = listed(plugin)[0], context.read(lambda view: view.journal.cursor())
    statements: list[str] = []
    event.listen(
        context.database.writing,
        "before_cursor_execute",
        lambda conn, cursor, statement, *rest: statements.append(statement.split()[0]),
    )
    handler([beat(counts={"devices": 9})])
    assert statements == ["BEGIN", "UPDATE"]
    second = listed(plugin)[0]
    assert second["configurations"]["devices"] == 9
    assert second["revision_number"] == first["revision_number"] == 1
    handler([beat(start=True)])
    assert listed(plugin)[0]["revision_number"] == 1, "a restart is no change"
    assert context.read(lambda view: view.journal.cursor()) == cursor
    handler([beat(tunneling_ip="192.0.2.2")])
    third = listed(plugin)[0]
    assert third["revision_number"] == 2
    assert third["id"] == first["id"]
    assert context.read(lambda view: view.journal.cursor()).seq == cursor.seq + 1


@pytest.mark.spec("RPC-03")
def test_agent_up_hooks_run_when_an_agent_is_usable(
    context: ServerContext,
    plugin: HandlersOnly,
    handler: HeartbeatHandler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooked: list[str] = []
    context.agent_up_hooks.append(lambda unit, agent: hooked.append(f"{agent.host} {agent.alive}"))
    caplog.set_level(logging.INFO)
    handler([beat()])
    handler([beat()])
    assert hooked == ["a True"]
    grow_old(context, "a", 80)
    handler([beat()])
    handler([beat()])
    assert hooked == ["a True"] * 2
    assert "after 80 s of silence" in caplog.text
    handler([beat(start=True)])
    handler([beat(tunnel_types=["vxlan"])])
    assert hooked == ["a True"] * 4
    id = listed(plugin)[0]["id"]
    plugin.update(ADMIN, "agent", id, {"admin_state_up": False})
    assert hooked == ["a True"] * 4
    plugin.update(ADMIN, "agent", id, {"admin_state_up": True})
    assert hooked == ["a True"] * 5


@pytest.mark.spec("RPC-03", "DHCP-08", "L2-45")
def test_an_agent_considered_dead_is_answered_so_unless_it_has_just_started(
    context: ServerContext, handler: HeartbeatHandler
) -> None:
    assert [handler([beat(start=True)]).resync, handler([beat()]).resync] == [
        False,
        False,
    ]
    grow_old(context, "a", 70)
    assert not handler([beat()]).resync, "it was not considered dead yet"
    grow_old(context, "a", 80)
    assert handler([beat("b"), beat()]).resync
    assert not handler([beat()]).resync, "once is enough"
    grow_old(context, "a", 80)
    assert not handler([beat(start=True)]).resync


@pytest.mark.spec("L3-06")
def test_an_agent_that_is_switched_on_again_reads_everything(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    handler([beat(start=True)])
    id = listed(plugin)[0]["id"]
    plugin.update(ADMIN, "agent", id, {"admin_state_up": False})
    assert not handler([beat()]).resync
    plugin.update(ADMIN, "agent", id, {"admin_state_up": True})
    assert listed(plugin, alive="True"), "it stays alive meanwhile"
    assert handler([beat()]).resync
    assert not handler([beat()]).resync, "once is enough"
    plugin.update(ADMIN, "agent", id, {"admin_state_up": True, "description": "again"})
    assert not handler([beat()]).resync, "it was on"


@pytest.mark.spec("API-06")
def test_people_switch_agents_off_describe_and_forget_them_and_make_none(
    plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    handler([beat()])
    id = listed(plugin)[0]["id"]
    changed = plugin.update(ADMIN, "agent", id, {"admin_state_up": False, "description": "spare"})
    assert changed["alive"]
    assert not changed["admin_state_up"]
    handler([beat(start=True, other=1)])
    assert plugin.show(ADMIN, "agent", id)["description"] == "spare"
    assert not plugin.show(ADMIN, "agent", id)["admin_state_up"]
    plugin.delete(ADMIN, "agent", id)
    with pytest.raises(NotFound):
        plugin.show(ADMIN, "agent", id)
    handler([beat()])
    assert listed(plugin)[0]["id"] == id, "it lives, and is the same one"
    assert listed(plugin)[0]["admin_state_up"]
    with pytest.raises(NotSupported, match="start one"):
        plugin.create(ADMIN, "agent", [{"host": "x"}])
    assert plugin.find(RequestContext(project_id="p"), "agent", Query()) == ()


def test_an_id_is_of_the_agent_that_had_it_first(
    plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    handler([beat("a")])
    stranger = evolve(beat("b").agent, id=beat("a").agent.id)
    handler([Heartbeat(agent=stranger)])
    handler([Heartbeat(agent=stranger)])
    handler([Heartbeat(agent=evolve(beat("a").agent, id=AgentId(uuid4())), counts={"devices": 0})])
    found = {each["host"]: each["id"] for each in listed(plugin)}
    assert found["a"] == str(beat("a").agent.id)
    assert found["b"] != found["a"]
    assert len(listed(plugin)) == 2


@pytest.mark.spec("RPC-06")
def test_tunnel_address_of_a_dead_host_is_taken_over(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    address = {"tunneling_ip": "192.0.2.9", "tunnel_types": ["vxlan"]}
    handler([beat("a", start=True, **address)])
    handler([beat("a", start=True, **address)])
    for _ in range(2):
        with pytest.raises(InvalidInput, match="another host"):
            handler([beat("b", start=True, **address)])
    grow_old(context, "a", 70)
    with pytest.raises(InvalidInput, match="another host"):
        handler([beat("b", start=True, **address)])
    grow_old(context, "a", 80)
    handler([beat("b", start=True, **address)])
    with pytest.raises(InvalidInput, match="another host"):
        handler([beat("a", **address)])
    assert {each["host"]: each["alive"] for each in listed(plugin)} == {"a": False, "b": True}
    handler([beat("a", tunneling_ip="192.0.2.10")])
    assert claimed(context) == {"192.0.2.9": "b", "192.0.2.10": "a"}


@pytest.mark.spec("RPC-06")
def test_tunnel_addresses_are_released_with_the_agents_that_advertise_them(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    context.settings = evolve(context.settings, further_agent_types=("Vendor agent",))
    for number in range(20):
        handler([beat("a", tunneling_ip=f"192.0.2.{number + 1}")])
    assert claimed(context) == {"192.0.2.20": "a"}
    handler([beat("a", "Vendor agent", tunneling_ip="192.0.2.20")])
    handler([beat("a", tunneling_ip="2001:db8:0::1")])
    assert claimed(context) == {"192.0.2.20": "a", "2001:db8::1": "a"}, "both agents have one"
    for address in ("127.0.0.1", "::", "224.0.0.1", "no address", None):
        handler([beat("b", tunneling_ip=address)])
        handler([beat("c", tunneling_ip=address)])
    assert claimed(context) == {"192.0.2.20": "a", "2001:db8::1": "a"}, "no other host can have it"
    for each in listed(plugin, host="a"):
        plugin.delete(ADMIN, "agent", each["id"])
    assert claimed(context) == {}


def claimed(context: ServerContext) -> dict[str, str]:
    with context.database.writing.begin() as connection:
        rows = connection.execute(text("SELECT address, host FROM tunnel_addresses"))
        return {row.address: row.host for row in rows}


@pytest.mark.spec("RPC-06")
def test_agents_of_further_types_register_if_an_option_names_them(
    context: ServerContext, plugin: HandlersOnly, handler: HeartbeatHandler
) -> None:
    with pytest.raises(InvalidInput, match="further_agent_types"):
        handler([beat("b"), beat("a", "Vendor agent")])
    assert listed(plugin) == [], "nothing of the message is stored"
    context.settings = evolve(context.settings, further_agent_types=("Vendor agent",))
    handler([beat("a", "Vendor agent")])
    assert [each["agent_type"] for each in listed(plugin)] == ["Vendor agent"]
