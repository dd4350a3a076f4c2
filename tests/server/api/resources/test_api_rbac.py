"""RBAC policies and what they let other projects see and use, as clients meet them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.rbac.policies import RbacPlugin
from tests.server.api.environment import Client, Reply, api

pytestmark = pytest.mark.spec("API-07")

SHARED, EXTERNAL = "access_as_shared", "access_as_external"


class Users:
    """Alice, who owns what is shared; Bob and Carol of other projects; an administrator."""

    def __init__(self, alice: Client) -> None:
        self.alice, self.bob = alice, alice.as_("bob/member")
        self.carol, self.admin = alice.as_("carol/member"), alice.as_("root/admin")

    def request(self, who: Client, id: str, target: str, **attributes: Any) -> Reply:
        body = {
            "object_type": "network",
            "object_id": id,
            "action": SHARED,
            "target_tenant": target,
            **attributes,
        }
        return who.post("rbac-policies", {"rbac_policy": body})

    def share(self, who: Client, id: str, target: str, **attributes: Any) -> dict[str, Any]:
        reply = self.request(who, id, target, **attributes)
        assert reply.status == 201, reply.data
        return dict(reply.json["rbac_policy"])

    def retarget(self, who: Client, policy: dict[str, Any], target: str) -> Reply:
        body = {"rbac_policy": {"target_tenant": target}}
        return who.put(f"rbac-policies/{policy['id']}", body)

    def withdraw(self, who: Client, policy: dict[str, Any]) -> Reply:
        return who.delete(f"rbac-policies/{policy['id']}")

    def policies(self, who: Client, **filters: Any) -> list[dict[str, Any]]:
        return who.list("rbac-policies", **filters)

    def private(self, **attributes: Any) -> str:
        """Create a network of Alice with a subnet, and return its id."""
        id: str = self.alice.network(**attributes)["id"]
        self.alice.make("subnets", network_id=id, cidr="10.0.0.0/24", ip_version=4)
        return id


@pytest.fixture
def users(plugins: list[HandlerPlugin]) -> Users:
    context = plugins[0].context
    return Users(api([*plugins, RouterPlugin(context), RbacPlugin(context)]))


def error(reply: Reply) -> tuple[int, str]:
    return reply.status, str(reply.error["type"])


def shown(who: Client, id: str, collection: str = "networks") -> dict[str, Any]:
    reply = who.get(f"{collection}/{id}")
    assert reply.status == 200, reply.data
    (body,) = reply.json.values()
    return dict(body)


class TestThePolicyItself:
    def test_has_the_attributes_that_clients_know_and_a_target_that_changes(
        self, users: Users
    ) -> None:
        network = users.private()
        made = users.share(users.alice, network, "bob")
        assert made == {
            "id": made["id"],
            "project_id": "alice",
            "tenant_id": "alice",
            "object_type": "network",
            "object_id": network,
            "action": SHARED,
            "target_tenant": "bob",
        }
        assert users.alice.get(f"rbac-policies/{made['id']}").json == {"rbac_policy": made}
        changed = users.retarget(users.alice, made, "carol")
        assert changed.json["rbac_policy"] == {**made, "target_tenant": "carol"}
        assert users.withdraw(users.alice, made).status == 204
        assert error(users.withdraw(users.alice, made)) == (404, "RbacPolicyNotFound")

    def test_is_seen_by_its_owner_alone_and_found_by_each_attribute(self, users: Users) -> None:
        first, second = users.private(), users.private()
        one, two = users.share(users.alice, first, "bob"), users.share(users.alice, second, "carol")
        assert users.policies(users.bob) == []
        assert users.bob.get(f"rbac-policies/{one['id']}").status == 404
        for name, value in one.items():
            assert one in users.policies(users.alice, **{name: value})
        assert users.policies(users.alice, object_id=second) == [two]
        assert users.policies(users.alice, target_tenant="carol") == [two]
        assert users.policies(users.alice, action=EXTERNAL) == []
        assert users.policies(users.alice, fields="action")[0] == {"action": SHARED}

    def test_exists_once(self, users: Users) -> None:
        network = users.private()
        users.share(users.alice, network, "bob")
        other = users.share(users.alice, network, "carol")
        for reply in (
            users.request(users.alice, network, "bob"),
            users.retarget(users.alice, other, "bob"),
        ):
            assert error(reply) == (409, "DuplicateRbacPolicy")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"object_type": "port"},
            {"object_type": "netwrok"},
            {"action": "access_as_owner"},
            {"object_type": "security_group", "action": EXTERNAL},
            {"object_id": "no id"},
            {"target_tenant": ""},
            {"target_tenant": None},
            {"target_tenant": "1234" * 100},
        ],
    )
    def test_refuses_what_it_does_not_know(self, users: Users, wrong: dict[str, Any]) -> None:
        network = users.private()
        target = wrong.pop("target_tenant", "bob")
        assert users.request(users.alice, network, target, **wrong).status == 400

    def test_counts_for_the_quota_and_flags_count_beyond_it(
        self, users: Users, plugins: list[HandlerPlugin]
    ) -> None:
        context = plugins[0].context
        context.quotas["rbac_policy"] = 1
        network = users.private()
        users.share(users.alice, network, "bob")
        assert error(users.request(users.alice, network, "carol")) == (409, "OverQuota")
        assert users.admin.put(f"networks/{network}", {"network": {"shared": True}}).status == 200
        for used in (2, 0):
            usage = context.read(lambda view: view.quotas.of_project("alice")["rbac_policy"])
            assert (usage.used, len(users.policies(users.admin))) == (used, used)
            users.alice.delete(f"networks/{network}")


class TestTheRightToShare:
    def test_is_that_of_the_owner_and_of_administrators(self, users: Users) -> None:
        network = users.private()
        assert error(users.request(users.bob, network, "bob")) == (404, "NetworkNotFound")
        users.share(users.alice, network, "bob")
        assert error(users.request(users.bob, network, "carol")) == (400, "InvalidInput")
        assert users.share(users.admin, network, "carol")["project_id"] == "root"

    def test_with_all_projects_is_that_of_administrators(self, users: Users) -> None:
        network = users.private()
        assert users.request(users.alice, network, "*").status == 403
        policy = users.share(users.alice, network, "bob")
        assert users.retarget(users.alice, policy, "*").status == 403
        assert users.retarget(users.admin, policy, "*").status == 200


class TestVisibility:
    def test_of_a_network_and_its_subnets_is_the_target_s(self, users: Users) -> None:
        network = users.private()
        policy = users.share(users.alice, network, "bob")
        (subnet,) = shown(users.bob, network)["subnets"]
        assert [each["id"] for each in users.bob.list("networks")] == [network]
        assert [each["id"] for each in users.bob.list("subnets")] == [subnet]
        assert users.bob.get(f"subnets/{subnet}").status == 200
        assert users.carol.list("networks") == users.carol.list("subnets") == []
        assert users.carol.get(f"networks/{network}").status == 404
        assert users.carol.get(f"subnets/{subnet}").status == 404
        users.retarget(users.alice, policy, "carol")
        assert users.bob.get(f"networks/{network}").status == 404
        assert users.carol.get(f"subnets/{subnet}").status == 200

    def test_shared_is_true_in_the_view_of_the_target(self, users: Users) -> None:
        network = users.private()
        users.share(users.alice, network, "bob")
        views = {users.bob: True, users.alice: False, users.admin: False}
        for who, expected in views.items():
            assert shown(who, network)["shared"] is expected
            (listed,) = who.list("networks")
            assert listed["shared"] is expected
            assert len(who.list("networks", shared=expected)) == 1
            assert who.list("networks", shared=not expected) == []
            assert len(who.list("subnets", shared=expected)) == 1
            assert who.list("subnets", shared=not expected) == []

    def test_shared_is_true_in_the_response_to_an_update_too(self, users: Users) -> None:
        network = users.private()
        users.share(users.alice, network, "alice")
        for who, expected in ((users.alice, True), (users.admin, False)):
            reply = who.put(f"networks/{network}", {"network": {"name": "x"}})
            assert reply.json["network"]["shared"] is expected
        assert shown(users.admin, network)["shared"] is False

    def test_of_a_group_with_its_rules(self, users: Users) -> None:
        group = users.alice.make("security-groups", name="web")["id"]
        assert users.bob.get(f"security-groups/{group}").status == 404
        users.share(users.alice, group, "bob", object_type="Security_Group")
        found = shown(users.bob, group, "security-groups")
        assert (found["shared"], len(found["security_group_rules"])) == (True, 2)
        assert shown(users.alice, group, "security-groups")["shared"] is False
        assert [each["id"] for each in users.bob.list("security-groups", shared=True)] == [group]
        assert users.carol.get(f"security-groups/{group}").status == 404

    def test_does_not_let_the_target_change_anything(self, users: Users) -> None:
        network = users.private()
        users.share(users.alice, network, "bob")
        (subnet,) = shown(users.bob, network)["subnets"]
        for path in (f"networks/{network}", f"subnets/{subnet}"):
            assert users.bob.delete(path).status == 403
        subnet_body = {"network_id": network, "cidr": "10.9.0.0/24", "ip_version": 4}
        assert users.bob.post("subnets", {"subnet": subnet_body}).status == 403


class TestTheFlags:
    def test_follow_a_policy_for_all(self, users: Users) -> None:
        network, revision = users.private(), 0
        for action, flag in ((SHARED, "shared"), (EXTERNAL, "router:external")):
            policy = users.share(users.admin, network, "*", action=action)
            body = shown(users.alice, network)
            assert (body[flag], body["revision_number"] > revision) == (True, True)
            revision = body["revision_number"]
            assert shown(users.carol, network)[flag] is True
            assert users.withdraw(users.admin, policy).status == 204
            assert shown(users.alice, network)[flag] is False
            assert users.carol.get(f"networks/{network}").status == 404

    def test_make_a_policy_for_all(self, users: Users) -> None:
        for flag, action in (("shared", SHARED), ("router:external", EXTERNAL)):
            network = users.admin.make("networks", **{flag: True})["id"]
            (policy,) = users.policies(users.admin, object_id=network)
            assert (policy["action"], policy["target_tenant"]) == (action, "*")
            users.admin.put(f"networks/{network}", {"network": {flag: False}})
            assert users.policies(users.admin, object_id=network) == []
            assert users.bob.get(f"networks/{network}").status == 404
            users.admin.put(f"networks/{network}", {"network": {flag: True}})
            assert len(users.policies(users.admin, object_id=network)) == 1
            assert users.bob.get(f"networks/{network}").status == 200

    def test_external_is_any_policy_of_external_access(self, users: Users) -> None:
        network = users.private()
        first = users.share(users.alice, network, "bob", action=EXTERNAL)
        second = users.share(users.alice, network, "carol", action=EXTERNAL)
        for policy, left in ((first, True), (second, False)):
            assert shown(users.alice, network)["router:external"] is True
            assert users.withdraw(users.alice, policy).status == 204
            assert shown(users.alice, network)["router:external"] is left

    def test_of_the_default_external_network_stay(self, users: Users) -> None:
        body = {"router:external": True, "is_default": True}
        network = users.admin.make("networks", **body)["id"]
        (policy,) = users.policies(users.admin, object_id=network)
        assert error(users.withdraw(users.admin, policy)) == (409, "RbacPolicyInUse")

    def test_end_with_the_resource(self, users: Users) -> None:
        network = users.private()
        group = users.alice.make("security-groups", name="web")["id"]
        users.share(users.admin, network, "*")
        users.share(users.alice, network, "bob", action=EXTERNAL)
        users.share(users.alice, group, "bob", object_type="security_group")
        assert users.alice.delete(f"networks/{network}").status == 204
        assert users.alice.delete(f"security-groups/{group}").status == 204
        assert users.policies(users.admin) == []


class TestUse:
    def test_of_a_network_keeps_the_policy(self, users: Users) -> None:
        network = users.private()
        policy = users.share(users.alice, network, "bob")
        assert users.carol.post("ports", {"port": {"network_id": network}}).status == 404
        port = users.bob.make("ports", network_id=network)["id"]
        for reply in (
            users.withdraw(users.alice, policy),
            users.retarget(users.alice, policy, "carol"),
        ):
            assert error(reply) == (409, "RbacPolicyInUse")
        for_all = users.share(users.admin, network, "*")
        assert users.withdraw(users.alice, policy).status == 204
        assert error(users.withdraw(users.admin, for_all)) == (409, "RbacPolicyInUse")
        withdrawn = users.admin.put(f"networks/{network}", {"network": {"shared": False}})
        assert error(withdrawn) == (409, "InvalidSharedSetting")
        assert error(users.retarget(users.admin, for_all, "bob")) == (409, "RbacPolicyInUse")
        assert users.bob.delete(f"ports/{port}").status == 204
        assert users.withdraw(users.admin, for_all).status == 204

    def test_by_the_owner_keeps_no_policy(self, users: Users) -> None:
        network = users.private()
        policy = users.share(users.alice, network, "alice")
        users.alice.make("ports", network_id=network)
        assert users.retarget(users.alice, policy, "bob").status == 200
        assert users.withdraw(users.alice, policy).status == 204

    def test_of_a_group_keeps_the_policy(self, users: Users) -> None:
        group = users.alice.make("security-groups", name="web")["id"]
        network = users.bob.network()["id"]
        body = {"port": {"network_id": network, "security_groups": [group]}}
        assert users.bob.post("ports", body).status == 404
        policy = users.share(users.alice, group, "bob", object_type="security_group")
        port = users.bob.post("ports", body).json["port"]
        assert port["security_groups"] == [group]
        assert error(users.withdraw(users.alice, policy)) == (409, "RbacPolicyInUse")
        users.bob.put(f"ports/{port['id']}", {"port": {"security_groups": []}})
        assert users.withdraw(users.alice, policy).status == 204
        again = users.bob.put(f"ports/{port['id']}", {"port": {"security_groups": [group]}})
        assert again.status == 404

    def test_as_an_external_network_keeps_the_policy(self, users: Users) -> None:
        network = users.private()
        gateway = {"router": {"external_gateway_info": {"network_id": network}}}
        floating = {"floatingip": {"floating_network_id": network}}
        policy = users.share(users.alice, network, "bob", action=EXTERNAL)
        made = {
            f"routers/{users.bob.post('routers', gateway).json['router']['id']}",
            f"floatingips/{users.bob.post('floatingips', floating).json['floatingip']['id']}",
        }
        for path in made:
            assert error(users.withdraw(users.alice, policy)) == (409, "RbacPolicyInUse")
            assert users.bob.delete(path).status == 204
        assert users.withdraw(users.alice, policy).status == 204
        for body in (gateway, floating):
            path = next(iter(body)) + "s"
            assert users.bob.post(path, body).status == 404

    def test_as_an_external_network_is_not_of_those_it_is_shared_with(self, users: Users) -> None:
        network = users.private()
        users.share(users.alice, network, "bob", action=EXTERNAL)
        users.share(users.alice, network, "carol")
        floating = {"floatingip": {"floating_network_id": network}}
        assert users.carol.post("floatingips", floating).status == 400
        assert users.bob.post("ports", {"port": {"network_id": network}}).status == 403
        assert users.carol.post("ports", {"port": {"network_id": network}}).status == 201
        dora = users.alice.as_("dora/member")
        assert dora.post("ports", {"port": {"network_id": network}}).status == 404


def test_lists_take_as_many_statements_however_many_are_shared(
    users: Users, plugins: list[HandlerPlugin]
) -> None:
    seen: list[str] = []

    def note(*args: Any) -> None:
        seen.append(args[2])

    event.listen(plugins[0].context.database.reading, "before_cursor_execute", note)
    counts = []
    for number in (1, 5):
        for _ in range(number):
            users.share(users.alice, users.alice.network()["id"], "bob")
        seen.clear()
        for collection in ("networks", "subnets", "security-groups"):
            users.bob.list(collection)
        counts.append(len(seen))
    assert len(users.bob.list("networks")) == 6
    assert counts[0] == counts[1]
