"""QoS policies and their rules, as clients use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.qos.policies import QosPlugin
from netfw_drivers.extension_drivers.qos import QosDriver
from tests.server.api.environment import Client, Reply, api
from tests.server.api.plugins import kept

pytestmark = pytest.mark.spec("API-07")

LIMIT = {"max_kbps": 1000, "max_burst_kbps": 100}


@pytest.fixture
def plugins(empty_tables: Path, tmp_path: Path) -> Iterator[list[HandlerPlugin]]:
    with kept(empty_tables, tmp_path, (QosDriver(),)) as plugins:
        context = plugins[0].context
        yield [*plugins, RouterPlugin(context), QosPlugin(context)]


@pytest.fixture
def admin(plugins: list[HandlerPlugin]) -> Client:
    extending = ExtensionDrivers((QosDriver(),)).declared()
    return api(plugins, extending=extending).as_("root/admin")


def policy(client: Client, **attributes: Any) -> dict[str, Any]:
    made = client.post("qos/policies", {"policy": attributes})
    assert made.status == 201, made.data
    return dict(made.json["policy"])


def add(client: Client, policy_id: str, type: str, **attributes: Any) -> Reply:
    return client.post(f"qos/policies/{policy_id}/{type}_rules", {f"{type}_rule": attributes})


def show(client: Client, path: str) -> dict[str, Any]:
    (body,) = client.get(path).json.values()
    return dict(body)


def test_the_life_of_a_policy(admin: Client) -> None:
    made = policy(admin, name="slow", description="for guests")
    times = ("id", "created_at", "updated_at", "project_id", "tenant_id", "revision_number")
    assert {name: value for name, value in made.items() if name not in times} == {
        "name": "slow",
        "description": "for guests",
        "shared": False,
        "is_default": False,
        "rules": [],
        "tags": [],
    }
    own = f"qos/policies/{made['id']}"
    assert admin.get(own).json == {"policy": made}
    changed = admin.put(own, {"policy": {"name": "slower"}}).json["policy"]
    assert (changed["name"], changed["revision_number"]) == ("slower", 2)
    assert [each["id"] for each in admin.get("qos/policies").json["policies"]] == [made["id"]]
    assert admin.delete(own).status == 204
    missing = admin.get(own)
    assert (missing.status, missing.error["type"]) == (404, "QosPolicyNotFound")
    assert admin.get("policies").status == 404


def test_tags_are_found_with_and_without_the_prefix(admin: Client) -> None:
    id = policy(admin)["id"]
    assert admin.put(f"qos/policies/{id}/tags", {"tags": ["a"]}).status == 200
    assert admin.put(f"policies/{id}/tags/b", {}).status == 201
    assert show(admin, f"qos/policies/{id}")["tags"] == ["a", "b"]
    assert len(admin.get("qos/policies", tags="a,b").json["policies"]) == 1


RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bandwidth_limit": (
        {"max_kbps": 1000},
        {"max_kbps": 1000, "max_burst_kbps": 0, "direction": "egress"},
    ),
    "dscp_marking": ({"dscp_mark": 26}, {"dscp_mark": 26}),
    "minimum_bandwidth": (
        {"min_kbps": 5, "direction": "ingress"},
        {"min_kbps": 5, "direction": "ingress"},
    ),
    "minimum_packet_rate": (
        {"min_kpps": 5, "direction": "any"},
        {"min_kpps": 5, "direction": "any"},
    ),
    "packet_rate_limit": (
        {"max_kpps": 7},
        {"max_kpps": 7, "max_burst_kpps": 0, "direction": "egress"},
    ),
}


@pytest.mark.parametrize("type", RULES)
def test_the_life_of_a_rule(admin: Client, type: str) -> None:
    id = policy(admin)["id"]
    given, shown = RULES[type]
    made = add(admin, id, type, **given)
    assert made.status == 201
    body = made.json[f"{type}_rule"]
    assert body == {"id": body["id"], **shown}
    collection = f"qos/policies/{id}/{type}_rules"
    own = f"{collection}/{body['id']}"
    assert admin.get(own).json == {f"{type}_rule": body}
    assert admin.get(collection).json == {f"{type}_rules": [body]}
    first = next(iter(given))
    changed = admin.put(own, {f"{type}_rule": {first: 8}})
    assert (changed.status, changed.json[f"{type}_rule"][first]) == (200, 8)
    whole = show(admin, f"qos/policies/{id}")
    assert whole["rules"] == [{**body, first: 8, "type": type, "qos_policy_id": id}]
    assert whole["revision_number"] == 3
    assert admin.delete(own).status == 204
    missing = admin.get(own)
    assert (missing.status, missing.error["type"]) == (404, "QosRuleNotFound")
    other = add(admin, id, type, **given).json[f"{type}_rule"]["id"]
    elsewhere = policy(admin)["id"]
    assert admin.get(f"qos/policies/{elsewhere}/{type}_rules/{other}").status == 404


@pytest.mark.parametrize("type", [each for each in RULES if each != "packet_rate_limit"])
def test_a_rule_by_its_own_id(admin: Client, type: str) -> None:
    id = policy(admin)["id"]
    given, shown = RULES[type]
    rule = add(admin, id, type, **given).json[f"{type}_rule"]["id"]
    name = f"alias_{type}_rule"
    own = f"qos/alias-{type.replace('_', '-')}-rules/{rule}"
    owner = {"project_id": "root", "tenant_id": "root"}
    assert admin.get(own).json == {name: {"id": rule, **shown, **owner}}
    first = next(iter(given))
    changed = admin.put(own, {name: {first: 8}})
    assert changed.json == {name: {"id": rule, **shown, **owner, first: 8}}
    assert admin.get(own.replace(rule, rule.upper())).json == changed.json
    assert admin.get(f"qos/policies/{id}/{type}_rules/{rule.upper()}").status == 200
    member = admin.as_("alice/member")
    assert member.get(own).status == 404
    assert member.delete(own).status == 403
    assert admin.delete(own).status == 204
    missing = admin.get(own)
    assert (missing.status, missing.error["type"]) == (404, "QosRuleNotFound")
    assert admin.get(f"qos/alias-{type.replace('_', '-')}-rules").status == 405


@pytest.mark.parametrize("type", [each for each in RULES if each != "packet_rate_limit"])
def test_a_rule_of_an_invisible_policy_is_as_one_that_does_not_exist(
    admin: Client, type: str
) -> None:
    given, _ = RULES[type]
    rule = add(admin, policy(admin)["id"], type, **given).json[f"{type}_rule"]["id"]
    other, missing = admin.as_("bob/manager"), str(uuid4())
    collection, body = f"qos/alias-{type.replace('_', '-')}-rules", {f"alias_{type}_rule": given}
    for request in (
        lambda id: other.get(f"{collection}/{id}"),
        lambda id: other.put(f"{collection}/{id}", body),
        lambda id: other.delete(f"{collection}/{id}"),
    ):
        hidden, none = request(rule), request(missing)
        assert none.status == 404
        assert hidden.error["message"].replace(rule, missing) == none.error["message"]
        assert hidden.error["type"] == none.error["type"] == "QosRuleNotFound"


@pytest.mark.parametrize(
    ("type", "wrong", "path"),
    [
        ("bandwidth_limit", {}, "max_kbps"),
        ("bandwidth_limit", {"max_kbps": -1}, "max_kbps"),
        ("bandwidth_limit", {"max_kbps": 2**31}, "max_kbps"),
        ("bandwidth_limit", {"max_kbps": 1, "direction": "any"}, "direction"),
        ("dscp_marking", {"dscp_mark": 42}, "dscp_mark"),
        ("minimum_bandwidth", {"min_kbps": "x"}, "min_kbps"),
        ("minimum_packet_rate", {"min_kpps": 1, "direction": "up"}, "direction"),
        ("packet_rate_limit", {"max_kpps": 1, "rate": 1}, "rate"),
    ],
)
def test_a_wrong_rule_is_refused(
    admin: Client, type: str, wrong: dict[str, Any], path: str
) -> None:
    refused = add(admin, policy(admin)["id"], type, **wrong)
    assert refused.status == 400
    assert path in refused.error["message"]


def test_rules_that_contradict_each_other_are_refused(admin: Client) -> None:
    id = policy(admin)["id"]
    limit = add(admin, id, "bandwidth_limit", **LIMIT).json["bandwidth_limit_rule"]["id"]
    again = add(admin, id, "bandwidth_limit", max_kbps=5)
    assert (again.status, again.error["type"]) == (409, "QoSRulesConflict")
    assert limit in again.error["message"]
    assert add(admin, id, "bandwidth_limit", max_kbps=5, direction="ingress").status == 201
    much = add(admin, id, "minimum_bandwidth", min_kbps=1001)
    assert (much.status, much.error["type"]) == (409, "QoSRuleParameterConflict")
    assert add(admin, id, "minimum_bandwidth", min_kbps=500).status == 201
    path = f"qos/policies/{id}/bandwidth_limit_rules/{limit}"
    less = admin.put(path, {"bandwidth_limit_rule": {"max_kbps": 499}})
    assert (less.status, less.error["type"]) == (409, "QoSRuleParameterConflict")
    turned = admin.put(path, {"bandwidth_limit_rule": {"direction": "ingress"}})
    assert (turned.status, turned.error["type"]) == (409, "QoSRulesConflict")
    assert add(admin, id, "minimum_packet_rate", min_kpps=1, direction="any").status == 201
    mixed = add(admin, id, "minimum_packet_rate", min_kpps=1)
    assert (mixed.status, mixed.error["type"]) == (409, "QoSRuleParameterConflict")
    assert add(admin, id, "dscp_marking", dscp_mark=8).status == 201
    assert add(admin, id, "dscp_marking", dscp_mark=10).error["type"] == "QoSRulesConflict"


def test_members_read_and_managers_write_in_their_project(admin: Client) -> None:
    member = admin.as_("alice/member")
    refused = member.post("qos/policies", {"policy": {"name": "x"}})
    assert refused.status == 403
    own = policy(admin, project_id="alice")["id"]
    foreign = policy(admin)["id"]
    assert add(admin, own, "bandwidth_limit", **LIMIT).status == 201
    assert [each["id"] for each in member.get("qos/policies").json["policies"]] == [own]
    assert len(member.get(f"qos/policies/{own}/bandwidth_limit_rules").json) == 1
    assert member.put(f"qos/policies/{own}", {"policy": {"name": "x"}}).status == 403
    assert member.put(f"qos/policies/{foreign}", {"policy": {"name": "x"}}).status == 404
    assert add(member, own, "dscp_marking", dscp_mark=8).status == 403
    assert add(member, foreign, "dscp_marking", dscp_mark=8).status == 403
    assert add(admin, str(uuid4()), "dscp_marking", dscp_mark=8).status == 404
    assert member.get(f"qos/policies/{foreign}/dscp_marking_rules").status == 404
    manager = admin.as_("alice/manager")
    assert add(manager, own, "dscp_marking", dscp_mark=8).status == 201
    assert add(manager, foreign, "dscp_marking", dscp_mark=8).status == 404
    assert manager.post("qos/policies", {"policy": {"shared": True}}).status == 403
    assert policy(manager, name="mine")["project_id"] == "alice"


def test_a_shared_policy_is_for_all_and_stays_shared_while_others_use_it(admin: Client) -> None:
    id = policy(admin, shared=True)["id"]
    member = admin.as_("alice/member")
    assert show(member, f"qos/policies/{id}")["shared"] is True
    unshared = {"policy": {"shared": False}}
    own, network = (user.network(qos_policy_id=id)["id"] for user in (admin, member))
    refused = admin.put(f"qos/policies/{id}", unshared)
    assert (refused.status, refused.error["type"]) == (409, "QosPolicyInUse")
    assert network in refused.error["message"]
    assert member.delete(f"networks/{network}").status == 204
    assert admin.put(f"qos/policies/{id}", unshared).status == 200, "its owner needs no sharing"
    assert show(admin, f"networks/{own}")["qos_policy_id"] == id
    assert member.get(f"qos/policies/{id}").status == 404


def test_one_default_policy_per_project_is_that_of_its_new_networks(admin: Client) -> None:
    member = admin.as_("alice/member")
    before = member.network()
    assert before["qos_policy_id"] is None
    default = policy(admin, project_id="alice", is_default=True)["id"]
    assert member.network()["qos_policy_id"] == default
    assert member.network(qos_policy_id=None)["qos_policy_id"] == default
    assert admin.network()["qos_policy_id"] is None
    assert show(member, f"networks/{before['id']}")["qos_policy_id"] is None
    again = admin.post("qos/policies", {"policy": {"project_id": "alice", "is_default": True}})
    assert (again.status, again.error["type"]) == (409, "QoSPolicyDefaultAlreadyExists")
    other = policy(admin, project_id="alice")["id"]
    assert member.network(qos_policy_id=other)["qos_policy_id"] == other
    chosen = {"policy": {"is_default": True}}
    refused = admin.put(f"qos/policies/{other}", chosen)
    assert refused.error["type"] == "QoSPolicyDefaultAlreadyExists"
    assert admin.put(f"qos/policies/{default}", {"policy": {"is_default": False}}).status == 200
    assert admin.put(f"qos/policies/{other}", chosen).status == 200
    assert member.network()["qos_policy_id"] == other


def test_the_types_of_rules(admin: Client) -> None:
    types = [{"type": each} for each in sorted(RULES)]
    assert admin.get("qos/rule-types").json == {"rule_types": types}
    member = admin.as_("alice/member")
    assert member.get("qos/rule-types", all_rules=True).json == {"rule_types": types}
    assert member.get("qos/rule-types/dscp_marking").status == 403
    details = show(admin, "qos/rule-types/bandwidth_limit")
    assert set(details) == {"type", "drivers"}
    (driver,) = details["drivers"]
    assert driver["name"] == "openvswitch"
    names = [each["parameter_name"] for each in driver["supported_parameters"]]
    assert names == ["max_kbps", "max_burst_kbps", "direction"]
    marks = show(admin, "qos/rule-types/dscp_marking")["drivers"][0]["supported_parameters"]
    assert 46 in marks[0]["parameter_values"]
    assert admin.get("qos/rule-types/colour").status == 404
