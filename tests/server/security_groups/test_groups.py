"""Security groups and rules, on a real database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from attrs import evolve
from sqlalchemy import event

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query, RequestContext
from netfw.errors import (
    Conflict,
    Exhausted,
    NotFound,
    Outdated,
)
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.security_group import DefaultSecurityGroupRule, Direction
from netfw.model.values.ids import (
    DefaultSecurityGroupRuleId,
    NetworkId,
    PortId,
    SecurityGroupId,
)
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.groups import SecurityGroupsPlugin, default_group
from tests.server.security_groups.client import ADMIN, ANNA, BERT, group, rule, used


@pytest.fixture
def plugin(context: ServerContext) -> SecurityGroupsPlugin:
    return SecurityGroupsPlugin(context)


def port(context: ServerContext, *groups: str, project: str = "anna") -> Port:
    """Create a port in *groups*."""

    def work(unit: UnitOfWork) -> Port:
        (network,) = unit.insert(Network(id=NetworkId(uuid4()), project_id=project))
        (made,) = unit.insert(
            Port(
                id=PortId(uuid4()),
                project_id=project,
                network_id=network.id,
                mac="fa:16:3e:00:00:01",
                security_groups=[SecurityGroupId(UUID(group)) for group in groups],
            )
        )
        return made

    return context.run(ADMIN, work)


def groups_of(plugin: SecurityGroupsPlugin, who: RequestContext = ANNA) -> Mapping[str, Any]:
    found = plugin.find(who, "security_group", Query())
    return {cast(str, each["name"]): each for each in found}


def lines(body: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    """Return the rules of a group in short."""
    return {
        (each["direction"], each["ethertype"], each["protocol"], each["remote_group_id"])
        for each in body["security_group_rules"]
    }


@pytest.mark.spec("API-06")
class TestTheDefaultGroup:
    def test_has_its_four_rules_and_is_created_once_on_first_use(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        first = context.run(ANNA, lambda unit: default_group(unit, "anna"))
        again = context.run(ANNA, lambda unit: default_group(unit, "anna"))
        assert first == again
        (shown,) = plugin.find(ANNA, "security_group", Query())
        assert shown["id"] == str(first)
        assert shown["name"] == "default"
        assert lines(shown) == {
            ("egress", "IPv4", None, None),
            ("egress", "IPv6", None, None),
            ("ingress", "IPv4", None, str(first)),
            ("ingress", "IPv6", None, str(first)),
        }

    def test_is_there_when_a_project_lists_its_groups_for_the_first_time(
        self, plugin: SecurityGroupsPlugin
    ) -> None:
        assert list(groups_of(plugin)) == ["default"]
        assert groups_of(plugin, BERT)["default"]["id"] != groups_of(plugin)["default"]["id"]

    def test_is_created_for_the_project_that_an_admin_names(
        self, plugin: SecurityGroupsPlugin
    ) -> None:
        (found,) = plugin.find(ADMIN, "security_group", Query(filters={"project_id": ("anna",)}))
        assert (found["project_id"], found["name"]) == ("anna", "default")
        found = plugin.find(BERT, "security_group", Query(filters={"project_id": ("carl",)}))
        assert found == ()
        projects = {each["project_id"] for each in plugin.find(ADMIN, "security_group", Query())}
        assert projects == {"anna", "bert", "root"}

    @pytest.mark.parametrize("text", ["x" * 256, "\u2028"])
    @pytest.mark.parametrize("kind", ["security_group", "security_group_rule"])
    def test_is_not_created_for_a_text_that_names_no_project(
        self, plugin: SecurityGroupsPlugin, kind: str, text: str
    ) -> None:
        assert plugin.find(ADMIN, kind, Query(filters={"project_id": (text,)})) == ()

    def test_counts_and_no_quota_stands_against_it(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        context.quotas = {"security_group": 0, "security_group_rule": 0}
        assert list(groups_of(plugin)) == ["default"]
        assert used(context, "anna", "security_group") == 1
        assert used(context, "anna", "security_group_rule") == 4
        with pytest.raises(Exhausted, match="security_group"):
            group(plugin)

    def test_has_a_name_that_no_other_group_gets(self, plugin: SecurityGroupsPlugin) -> None:
        with pytest.raises(Conflict, match="default"):
            group(plugin, name="default")
        other = group(plugin)
        with pytest.raises(Conflict, match="default"):
            plugin.update(ANNA, "security_group", other["id"], {"name": "default"})
        assert set(groups_of(plugin)) == {"default", "web"}

    def test_keeps_its_name_but_can_be_described(self, plugin: SecurityGroupsPlugin) -> None:
        id = groups_of(plugin)["default"]["id"]
        with pytest.raises(Conflict, match="keeps its name"):
            plugin.update(ADMIN, "security_group", id, {"name": "mine"})
        body = plugin.update(ANNA, "security_group", id, {"name": "default", "description": "d"})
        assert (body["name"], body["description"]) == ("default", "d")

    def test_is_deleted_by_an_admin_only_and_comes_back(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        first = groups_of(plugin)["default"]["id"]
        with pytest.raises(Conflict, match="default"):
            plugin.delete(ANNA, "security_group", first)
        plugin.delete(ADMIN, "security_group", first)
        assert used(context, "anna", "security_group") == 0
        assert used(context, "anna", "security_group_rule") == 0
        assert groups_of(plugin)["default"]["id"] != first

    def test_may_lose_and_gain_rules(self, plugin: SecurityGroupsPlugin) -> None:
        shown = groups_of(plugin)["default"]
        for each in shown["security_group_rules"]:
            plugin.delete(ANNA, "security_group_rule", each["id"])
        assert groups_of(plugin)["default"]["security_group_rules"] == []
        rule(plugin, shown["id"])
        assert len(groups_of(plugin)["default"]["security_group_rules"]) == 1


@pytest.mark.spec("API-06")
class TestGroups:
    def test_begin_with_what_their_ports_may_send(self, plugin: SecurityGroupsPlugin) -> None:
        shown = group(plugin, description="of the web")
        assert (shown["stateful"], shown["shared"], shown["revision_number"]) == (True, False, 1)
        assert lines(shown) == {("egress", "IPv4", None, None), ("egress", "IPv6", None, None)}
        assert shown == dict(plugin.show(ANNA, "security_group", shown["id"]))

    def test_are_made_several_at_once_or_not_at_all(self, plugin: SecurityGroupsPlugin) -> None:
        bodies = [{"project_id": "anna", "name": name} for name in ("a", "b", "default")]
        with pytest.raises(Conflict):
            plugin.create(ANNA, "security_group", bodies)
        assert set(groups_of(plugin)) == {"default"}
        made = plugin.create(ANNA, "security_group", bodies[:2])
        assert [each["name"] for each in made] == ["a", "b"]

    def test_of_others_do_not_exist(self, plugin: SecurityGroupsPlugin) -> None:
        id = group(plugin)["id"]
        with pytest.raises(NotFound):
            plugin.show(BERT, "security_group", id)
        with pytest.raises(NotFound):
            plugin.update(BERT, "security_group", id, {"name": "his"})
        with pytest.raises(NotFound):
            plugin.delete(BERT, "security_group", id)

    def test_change_their_state_only_while_no_port_is_in_them(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        id = group(plugin, stateful=False)["id"]
        assert plugin.update(ANNA, "security_group", id, {"stateful": True})["stateful"] is True
        user = port(context, id)
        with pytest.raises(Conflict, match=str(user.id)):
            plugin.update(ANNA, "security_group", id, {"stateful": False})
        plugin.update(ANNA, "security_group", id, {"stateful": True, "name": "still"})

    def test_with_state_and_without_do_not_have_the_same_port(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        with_state = [group(plugin)["id"] for _ in range(2)]
        without = group(plugin, stateful=False)["id"]
        user = port(context, *with_state)
        port(context, without)
        with pytest.raises(Conflict, match=without):
            port(context, *with_state, without)
        both = frozenset({*user.security_groups, SecurityGroupId(UUID(without))})
        with pytest.raises(Conflict, match=f"{user.id}.*{without}"):
            context.run(ADMIN, lambda unit: unit.update(user, evolve(user, security_groups=both)))

    def test_are_not_made_when_their_rules_are_too_many(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        context.quotas = {"security_group_rule": 3}
        group(plugin)
        with pytest.raises(Exhausted, match="security_group_rule"):
            group(plugin)

    def test_are_not_deleted_while_a_port_is_in_them(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        id = group(plugin)["id"]
        user = port(context, id)
        with pytest.raises(Conflict, match=f"{user.id}; take it off"):
            plugin.delete(ANNA, "security_group", id)
        context.run(ADMIN, lambda unit: unit.delete(user))
        plugin.delete(ANNA, "security_group", id)
        assert set(groups_of(plugin)) == {"default"}

    def test_take_their_rules_and_those_that_name_them_with_them(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        gone, other = group(plugin)["id"], group(plugin, name="other")["id"]
        rule(plugin, gone, remote_group_id=gone)
        naming = rule(plugin, other, remote_group_id=gone)
        changes: list[Change] = []
        context.precommit_hooks.append(lambda unit, change: changes.append(change))
        before = plugin.show(ANNA, "security_group", other)
        plugin.delete(ANNA, "security_group", gone)
        left = plugin.show(ANNA, "security_group", other)
        assert len(cast(list[Any], left["security_group_rules"])) == 2
        assert left["revision_number"] == cast(int, before["revision_number"]) + 1
        assert used(context, "anna", "security_group_rule") == 2
        deleted = {str(each.ref.id) for each in changes if each.after is None}
        assert {gone, naming["id"]} < deleted
        assert len(deleted) == 5

    def test_have_a_revision_that_requests_can_be_meant_for(
        self, plugin: SecurityGroupsPlugin
    ) -> None:
        id = group(plugin)["id"]
        made = rule(plugin, id)
        assert plugin.show(ANNA, "security_group", id)["revision_number"] == 2
        with pytest.raises(Outdated):
            plugin.update(ANNA, "security_group", id, {"name": "x"}, 1)
        plugin.update(ANNA, "security_group", id, {"name": "x"}, 2)
        plugin.delete(ANNA, "security_group_rule", made["id"])
        assert plugin.show(ANNA, "security_group", id)["revision_number"] == 4

    def test_are_listed_with_their_rules_in_a_number_of_statements_that_does_not_grow(
        self, context: ServerContext, plugin: SecurityGroupsPlugin
    ) -> None:
        statements: list[str] = []
        groups_of(plugin)

        def counted(number: int) -> int:
            for _ in range(number):
                rule(plugin, group(plugin)["id"])
            statements.clear()
            plugin.find(ANNA, "security_group", Query())
            return sum(statement.startswith("SELECT") for statement in statements)

        event.listen(
            context.database.reading,
            "before_cursor_execute",
            lambda *arguments: statements.append(arguments[2]),
        )
        assert counted(1) == counted(9) == 3

    def test_carry_tags(self, plugin: SecurityGroupsPlugin) -> None:
        id = group(plugin)["id"]
        plugin.member_action(ANNA, "security_group", id, "add_tags", {"tags": ["red"]})
        (found,) = plugin.find(ANNA, "security_group", Query(filters={"tags": ("red",)}))
        assert found["id"] == id


@pytest.mark.spec("API-07")
def test_equal_default_rules_of_two_servers_are_copied_once(
    context: ServerContext, plugin: SecurityGroupsPlugin
) -> None:
    def work(unit: UnitOfWork) -> None:
        for _ in range(2):
            unit.insert(
                DefaultSecurityGroupRule(
                    id=DefaultSecurityGroupRuleId(uuid4()), direction=Direction.INGRESS
                )
            )

    context.run(ADMIN, work)
    assert len(lines(group(plugin))) == len(group(plugin)["security_group_rules"]) == 3
