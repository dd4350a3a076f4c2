"""Quotas and availability zones."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from netfw.conf.quota import LIMITS, limits
from netfw.drivers.server.query import Query, RequestContext
from netfw.errors import Exhausted, InvalidInput, NotFound, NotSupported, OverQuota
from netfw.server.agents.agents import ZoneHandler
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.quotas import QuotaHandler
from netfw.server.core.resource_handler import apply_query
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database
from tests.server.core.agent_samples import ADMIN, HandlersOnly, beat, grow_old
from tests.server.core.core_client import ADMIN as CORE_ADMIN
from tests.server.core.core_client import ALICE, Calls, core_plugin, statements

MEMBER = RequestContext(project_id="p")


@pytest.fixture
def plugin(context: ServerContext) -> HandlersOnly:
    return HandlersOnly(context, [QuotaHandler(LIMITS), ZoneHandler(context.settings)])


@pytest.mark.spec("API-06")
def test_a_project_has_the_defaults_until_limits_are_set(plugin: HandlersOnly) -> None:
    assert plugin.show(MEMBER, "quota", "p") == {
        **LIMITS, "project_id": "p", "tenant_id": "p"
    }  # fmt: skip
    assert plugin.find(ADMIN, "quota", Query()) == ()
    changed = plugin.update(ADMIN, "quota", "p", {"port": 7, "router": -1})
    assert (changed["port"], changed["router"], changed["network"]) == (7, -1, 100)
    assert [each["project_id"] for each in plugin.find(ADMIN, "quota", Query())] == ["p"]
    assert plugin.member_action(MEMBER, "quota", "p", "default", {})["port"] == 500
    assert plugin.find(RequestContext(project_id="other"), "quota", Query()) == ()
    plugin.delete(ADMIN, "quota", "p")
    assert plugin.show(MEMBER, "quota", "p")["port"] == 500
    with pytest.raises(NotFound, match="no limits"):
        plugin.delete(ADMIN, "quota", "p")
    with pytest.raises(NotFound):
        plugin.show(MEMBER, "quota", "other")
    with pytest.raises(NotSupported):
        plugin.create(ADMIN, "quota", [{}])


@pytest.mark.spec("API-06")
def test_limits_hold_and_what_is_used_can_be_seen(
    context: ServerContext, plugin: HandlersOnly
) -> None:
    plugin.update(ADMIN, "quota", "p", {"network": 2})

    def use(count: int) -> None:
        context.database.transaction(lambda tx: tx.quotas.use("p", "network", count, 100))

    use(2)
    with pytest.raises(Exhausted, match="2 of 2 network"):
        use(1)
    details: Any = plugin.member_action(MEMBER, "quota", "p", "details", {})
    assert details["network"] == {"limit": 2, "used": 2, "reserved": 0}
    assert details["port"] == {"limit": 500, "used": 0, "reserved": 0}
    with pytest.raises(InvalidInput, match="network: the project has 2 already"):
        plugin.update(ADMIN, "quota", "p", {"network": 1})
    assert plugin.show(MEMBER, "quota", "p")["network"] == 2
    assert plugin.update(ADMIN, "quota", "p", {"network": 1, "force": True})["network"] == 1


@pytest.mark.spec("API-06")
def test_a_bulk_beyond_the_limit_is_refused_before_anything_is_written(database: Database) -> None:
    calls = Calls(core_plugin(database, quotas={**LIMITS, "network": 5}))
    calls.network()
    bodies = [{"project_id": ALICE.project_id, "name": str(number)} for number in range(5)]
    with statements(database) as seen:
        with pytest.raises(OverQuota, match="has 1 of 5 network, and requests 5 more"):
            calls.plugin.create(ALICE, "network", bodies)
        assert not [each for each in seen if each.startswith(("INSERT", "UPDATE"))]
    assert len(calls.plugin.create(ALICE, "network", bodies[1:])) == 4
    unlimited = [{"project_id": "", "name": str(number)} for number in range(6)]
    assert len(calls.plugin.create(CORE_ADMIN, "network", unlimited)) == 6


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"netwrok": 1}, "did you mean 'network'"),
        ({"network": -2}, "no limit"),
        ({"network": "7"}, "no limit"),
        ({"network": True}, "no limit"),
    ],
)
def test_what_is_no_limit_is_refused(plugin: HandlersOnly, body: Any, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        plugin.update(ADMIN, "quota", "p", body)
    assert plugin.find(ADMIN, "quota", Query()) == ()


@pytest.mark.spec("API-06")
def test_a_project_that_cannot_be_stored_gets_no_limits(plugin: HandlersOnly) -> None:
    with pytest.raises(InvalidInput, match="project_id: longer than 255"):
        plugin.update(ADMIN, "quota", "p" * 256, {"port": 7})
    assert plugin.update(ADMIN, "quota", "p" * 255, {"port": 7})["port"] == 7


def test_options_name_the_limits() -> None:
    values = {"default_quota": -1, **{f"quota_{name}": at for at, name in enumerate(LIMITS)}}
    assert limits(values) == {name: at for at, name in enumerate(LIMITS)}


@pytest.mark.spec("API-06")
def test_zones_are_where_agents_say_they_are(context: ServerContext, plugin: HandlersOnly) -> None:
    hear = HeartbeatHandler(context)
    hear([
        beat("a", "DHCP agent", zone="east"),
        beat("b", "DHCP agent", zone="west"),
        beat("a", "L3 agent", zone="east"),
        beat("c", zone="south"),
    ])  # fmt: skip
    grow_old(context, "b", 80)
    found = plugin.find(MEMBER, "availability_zone", Query())
    assert found == (
        {"name": "east", "resource": "network", "state": "available"},
        {"name": "east", "resource": "router", "state": "available"},
        {"name": "west", "resource": "network", "state": "unavailable"},
    )
    some = Query(filters={"resource": ("router",)})
    assert len(plugin.find(MEMBER, "availability_zone", some)) == 1


def test_a_computed_list_is_filtered_sorted_and_paged() -> None:
    ids = [str(UUID(int=at)) for at in range(5)]
    bodies = [{"id": id, "n": at % 2, "flag": at > 2} for at, id in enumerate(ids)]

    def shown(**query: Any) -> list[int]:
        return [ids.index(body["id"]) for body in apply_query(bodies, Query(**query))]

    assert shown(filters={"n": (1, 7)}) == [1, 3]
    assert shown(filters={"flag": (True,)}) == [3, 4]
    assert shown(filters={"flag": ("true",)}) == [3, 4]
    assert shown(sort=(("n", False),)) == [1, 3, 0, 2, 4]
    assert shown(limit=2, marker=UUID(int=1)) == [2, 3]
    assert shown(limit=2, marker=UUID(int=4), backwards=True) == [2, 3]
    with pytest.raises(NotFound, match="go on from"):
        shown(marker=UUID(int=9))
