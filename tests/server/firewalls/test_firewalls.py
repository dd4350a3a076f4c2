"""Firewall groups, policies and rules, as clients use them, and the routers that get them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from netfw.conf.quota import LIMITS
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.router_firewall import MAX_FIREWALL_RULES, FirewallGroup
from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database
from netfw.server.firewalls.groups import FirewallPlugin
from netfw.server.firewalls.references import MAX_ALL_USERS, MAX_USERS
from netfw.server.l3.routers import RouterPlugin
from netfw.server.scheduling.missing_l3_extensions import find_without_extension
from netfw.state.dependencies import Assignment
from tests.server.api.environment import Client, Reply, api
from tests.server.core.agent_samples import ADMIN, beat
from tests.server.core.core_client import core_plugin

pytestmark = pytest.mark.spec("L3-81")
RULES, POLICIES, GROUPS = (f"fwaas/firewall_{name}" for name in ("rules", "policies", "groups"))
KEYS = {RULES: "firewall_rule", POLICIES: "firewall_policy", GROUPS: "firewall_group"}


class Cloud:
    """A router of Alice with two interfaces, and her client."""

    def __init__(self, database: Database) -> None:
        core = core_plugin(database, quotas=dict(LIMITS))
        self.context: ServerContext = core.context
        plugins = [core, RouterPlugin(core.context), FirewallPlugin(core.context)]
        self.alice: Client = api(plugins)
        self.admin = self.alice.as_("root/admin")
        self.router = self.alice.make("routers")["id"]
        self.ports = [self._interface(number) for number in (1, 2)]

    def _interface(self, number: int) -> str:
        network = self.alice.network()["id"]
        cidr = f"10.0.{number}.0/24"
        subnet = self.alice.make("subnets", network_id=network, cidr=cidr, ip_version=4)
        path = f"routers/{self.router}/add_router_interface"
        added = self.alice.put(path, {"subnet_id": subnet["id"]})
        return str(added.json["port_id"])

    def report(self, host: str, **reported: Any) -> None:
        """Have the L3 agent of *host* report."""
        HeartbeatHandler(self.context)([beat(host, L3_AGENT, **reported)])

    def assign(self, host: str) -> None:
        target = Ref(Kind.ROUTER, UUID(self.router))
        assigned = Assignment(Service.L3, host, target)
        self.context.run(ADMIN, lambda unit: unit.tx.assignments.add(assigned))

    def groups(self) -> tuple[FirewallGroup, ...]:
        """Return what agents get of the router."""
        row = self.context.database.read(
            lambda view: view.resources.get(Kind.ROUTER, UUID(self.router))
        )
        return cast(Router, row.resource()).firewall_groups


@pytest.fixture
def cloud(database: Database) -> Cloud:
    return Cloud(database)


def make(client: Client, path: str, **body: Any) -> dict[str, Any]:
    reply = client.post(path, {KEYS[path]: body})
    assert reply.status == 201, reply.data
    made: dict[str, Any] = reply.json[KEYS[path]]
    return made


def change(client: Client, path: str, id: str, **body: Any) -> Reply:
    return client.put(f"{path}/{id}", {KEYS[path]: body})


def shown(client: Client, path: str, id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{path}/{id}").json[KEYS[path]]
    return found


def listed(client: Client, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(GROUPS, **filters).json["firewall_groups"]
    return found


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def test_a_group_brings_its_rules_to_the_router_of_its_ports(cloud: Cloud) -> None:
    client = cloud.alice
    web = make(client, RULES, action="ALLOW", protocol="TCP", destination_port=80)
    ping = make(client, RULES, action="allow", protocol="icmp", source_ip_address="10.0.0.0/8")
    policy = make(client, POLICIES, firewall_rules=[ping["id"], web["id"]])
    group = make(client, GROUPS, ports=cloud.ports[:1], ingress_firewall_policy_id=policy["id"])
    assert group["status"] == "ACTIVE"
    assert (web["action"], web["destination_port"], web["ip_version"]) == ("allow", "80", 4)
    (found,) = cloud.groups()
    assert [str(each) for each in found.ports] == cloud.ports[:1]
    assert [str(each.id) for each in found.ingress] == [ping["id"], web["id"]]
    assert found.egress == ()
    assert shown(client, RULES, web["id"])["firewall_policy_id"] == [policy["id"]]
    assert "routers" not in group
    assert "group_ids" not in shown(client, POLICIES, policy["id"])
    assert "firewall_groups" not in client.get(f"routers/{cloud.router}").json["router"]


def test_changes_of_rules_policies_and_groups_reach_the_router(cloud: Cloud) -> None:
    client = cloud.alice
    one, two = (make(client, RULES, name=name) for name in ("one", "two"))
    policy = make(client, POLICIES, firewall_rules=[one["id"]], audited=True)
    group = make(client, GROUPS, ports=cloud.ports, egress_firewall_policy_id=policy["id"])
    assert change(client, RULES, one["id"], action="reject").status == 200
    assert [each.action for each in cloud.groups()[0].egress] == ["reject"]
    assert shown(client, POLICIES, policy["id"])["audited"] is False
    own = f"{POLICIES}/{policy['id']}"
    body = {"firewall_rule_id": two["id"], "insert_after": one["id"], "insert_before": ""}
    inserted = client.put(f"{own}/insert_rule", body)
    assert inserted.json["firewall_rules"] == [one["id"], two["id"]]
    assert [str(each.id) for each in cloud.groups()[0].egress] == [one["id"], two["id"]]
    removed = client.put(f"{own}/remove_rule", {"firewall_rule_id": one["id"]})
    assert removed.json["firewall_rules"] == [two["id"]]
    assert change(client, RULES, two["id"], enabled=False).status == 200
    assert cloud.groups()[0].egress == ()
    assert change(client, RULES, two["id"], enabled=True).status == 200
    down = change(client, GROUPS, group["id"], admin_state_up=False).json["firewall_group"]
    assert (down["status"], cloud.groups()[0].egress) == ("DOWN", ())
    assert len(cloud.groups()[0].ports) == 2


def test_a_group_without_ports_is_inactive_and_can_be_deleted(cloud: Cloud) -> None:
    client = cloud.alice
    policy = make(client, POLICIES)
    group = make(client, GROUPS, ports=cloud.ports, ingress_firewall_policy_id=policy["id"])
    own = f"{GROUPS}/{group['id']}"
    assert refused(client.delete(own)) == (409, "FirewallGroupInUse")
    assert refused(client.delete(f"{POLICIES}/{policy['id']}")) == (409, "FirewallPolicyInUse")
    assert change(client, GROUPS, group["id"], ports=[]).json["firewall_group"]["status"] == (
        "INACTIVE"
    )
    assert cloud.groups() == ()
    assert [each["id"] for each in client.get(GROUPS, status="INACTIVE").json["firewall_groups"]]
    assert client.delete(own).status == 204
    assert client.delete(f"{POLICIES}/{policy['id']}").status == 204
    assert refused(client.get(own)) == (404, "FirewallGroupNotFound")


def test_an_interface_that_leaves_its_router_leaves_its_group(cloud: Cloud) -> None:
    client = cloud.alice
    group = make(client, GROUPS, ports=cloud.ports)
    path = f"routers/{cloud.router}/remove_router_interface"
    for left in (1, 0):
        assert client.put(path, {"port_id": cloud.ports[left]}).status == 200
        assert shown(client, GROUPS, group["id"])["ports"] == cloud.ports[:left]
    assert cloud.groups() == ()
    assert shown(client, GROUPS, group["id"])["status"] == "INACTIVE"
    assert client.delete(f"routers/{cloud.router}").status == 204


def test_ports_that_cannot_be_in_a_group_are_refused(cloud: Cloud) -> None:
    client, admin = cloud.alice, cloud.admin
    make(client, GROUPS, ports=cloud.ports[:1])
    network = client.network()["id"]
    plain = client.make("ports", network_id=network)["id"]
    instance = client.make("ports", network_id=network, device_owner="compute:nova")["id"]

    def attempt(sender: Client, port: str) -> tuple[int, str]:
        return refused(sender.post(GROUPS, {"firewall_group": {"ports": [port]}}))

    assert attempt(client, cloud.ports[0]) == (409, "FirewallGroupPortInUse")
    assert attempt(client, plain) == (409, "FirewallGroupPortInvalid")
    assert attempt(client, instance) == (409, "FirewallGroupPortNotSupported")
    assert attempt(client, str(uuid4())) == (404, "PortNotFound")
    assert attempt(client.as_("bob/member"), cloud.ports[1]) == (404, "PortNotFound")
    assert attempt(admin, cloud.ports[1]) == (409, "FirewallGroupPortInvalidProject")
    assert len(client.get(GROUPS).json["firewall_groups"]) == 1


@pytest.mark.parametrize(
    ("body", "type"),
    [
        ({"destination_port": "80"}, "FirewallRuleWithPortWithoutProtocolInvalid"),
        ({"protocol": "icmp", "source_port": "80"}, "FirewallRuleInvalidICMPParameter"),
        ({"protocol": "gre", "source_port": "80"}, "InvalidInput"),
        ({"source_ip_address": "2001:db8::/64"}, "FirewallIpAddressConflict"),
        ({"ip_version": 6, "destination_ip_address": "10.0.0.1"}, "FirewallIpAddressConflict"),
        ({"protocol": "tcp", "destination_port": "90:80"}, "InvalidInput"),
        ({"protocol": "tcp", "destination_port": "0"}, "InvalidInput"),
        ({"action": "explode"}, "InvalidInput"),
    ],
)
def test_rules_that_could_match_nothing_are_refused(
    cloud: Cloud, body: dict[str, Any], type: str
) -> None:
    reply = cloud.alice.post(RULES, {"firewall_rule": body})
    assert reply.status == 400
    assert type == "InvalidInput" or reply.error["type"] == type
    made = make(cloud.alice, RULES)
    assert change(cloud.alice, RULES, made["id"], **body).status == 400
    assert shown(cloud.alice, RULES, made["id"]) == made


def test_rules_in_use_and_unknown_ones_are_refused(cloud: Cloud) -> None:
    client = cloud.alice
    rule, other = make(client, RULES), make(client, RULES)
    policy = make(client, POLICIES, firewall_rules=[rule["id"]])
    own = f"{POLICIES}/{policy['id']}"
    assert refused(client.delete(f"{RULES}/{rule['id']}")) == (409, "FirewallRuleInUse")

    def act(action: str, **body: Any) -> tuple[int, str]:
        return refused(client.put(f"{own}/{action}", body))

    missing = (400, "FirewallRuleNotAssociatedWithPolicy")
    already = (409, "FirewallRuleAlreadyAssociated")
    assert act("remove_rule", firewall_rule_id=other["id"]) == missing
    assert act("insert_rule", firewall_rule_id=rule["id"]) == already
    assert act("insert_rule", firewall_rule_id=other["id"], insert_after=other["id"]) == missing
    unknown = (404, "FirewallRuleNotFound")
    assert act("insert_rule", firewall_rule_id=str(uuid4())) == unknown
    assert refused(change(client, POLICIES, policy["id"], firewall_rules=[str(uuid4())])) == unknown
    twice = [rule["id"]] * 2
    assert refused(change(client, POLICIES, policy["id"], firewall_rules=twice)) == already
    many = [str(uuid4()) for _ in range(MAX_FIREWALL_RULES + 1)]
    assert change(client, POLICIES, policy["id"], firewall_rules=many).status == 400
    assert shown(client, POLICIES, policy["id"])["firewall_rules"] == [rule["id"]]
    reply = client.post(GROUPS, {"firewall_group": {"egress_firewall_policy_id": str(uuid4())}})
    assert refused(reply) == (404, "FirewallPolicyNotFound")
    assert client.delete(own).status == 204
    assert client.delete(f"{RULES}/{rule['id']}").status == 204


def test_other_projects_see_and_use_what_is_shared(cloud: Cloud) -> None:
    admin, bob = cloud.admin, cloud.alice.as_("bob/member")
    private = make(admin, RULES)
    shared = make(admin, RULES, shared=True)
    conflict = admin.post(
        POLICIES, {"firewall_policy": {"shared": True, "firewall_rules": [private["id"]]}}
    )
    assert refused(conflict) == (409, "FirewallPolicySharingConflict")
    policy = make(admin, POLICIES, shared=True, firewall_rules=[shared["id"]])
    assert [each["id"] for each in bob.get(RULES).json["firewall_rules"]] == [shared["id"]]
    assert refused(bob.get(f"{RULES}/{private['id']}")) == (404, "FirewallRuleNotFound")
    group = make(bob, GROUPS, ingress_firewall_policy_id=policy["id"])
    assert refused(change(admin, POLICIES, policy["id"], shared=False)) == (
        409,
        "FirewallPolicyInUse",
    )
    assert refused(change(admin, RULES, shared["id"], shared=False)) == (409, "FirewallRuleInUse")
    assert change(bob, POLICIES, policy["id"], name="mine").status in (403, 404)
    assert bob.post(GROUPS, {"firewall_group": {"shared": True}}).status == 403
    own = make(admin, RULES, project_id="alice")
    reply = admin.post(POLICIES, {"firewall_policy": {"firewall_rules": [own["id"]]}})
    assert refused(reply) == (409, "FirewallRuleConflict")
    others = make(admin, POLICIES, project_id="alice")
    reply = admin.put(
        f"{GROUPS}/{group['id']}",
        {"firewall_group": {"egress_firewall_policy_id": others["id"]}},
    )
    assert refused(reply) == (404, "FirewallPolicyConflict")


def test_quotas_are_those_of_the_project(cloud: Cloud) -> None:
    limits = {"quota": {"firewall_rule": 1, "firewall_policy": 1, "firewall_group": 1}}
    assert cloud.admin.put("quotas/alice", limits).status == 200
    client = cloud.alice
    for path, key in KEYS.items():
        made = make(client, path)
        assert refused(client.post(path, {key: {}})) == (409, "OverQuota")
        assert client.delete(f"{path}/{made['id']}").status == 204
        make(client, path)


def test_users_of_shared_policies_are_limited_for_each_project(cloud: Cloud) -> None:
    policy = make(cloud.admin, POLICIES, shared=True)["id"]
    group = {"ingress_firewall_policy_id": policy}

    def use(number: int, count: int) -> Reply:
        project = f"project-{number}"
        limits = {"quota": {"firewall_group": -1}}
        assert cloud.admin.put(f"quotas/{project}", limits).status == 200
        client = cloud.alice.as_(f"{project}/member")
        return client.post(GROUPS, {"firewall_groups": [group] * count})

    assert use(0, MAX_USERS).status == 201
    assert "64 times by project project-0" in use(0, 1).error["message"]
    for number in range(1, MAX_ALL_USERS // MAX_USERS):
        assert use(number, MAX_USERS).status == 201
    assert "used 256 times" in use(4, 1).error["message"]
    used = cloud.admin.get(GROUPS, project_id="project-0").json["firewall_groups"][0]["id"]
    assert cloud.admin.delete(f"{GROUPS}/{used}").status == 204
    assert use(4, 1).status == 201


def test_a_group_that_a_host_does_not_enforce_has_the_status_error(cloud: Cloud) -> None:
    cloud.report("a", extensions=["router_firewall"])
    group = make(cloud.alice, GROUPS, ports=cloud.ports)
    assert (group["status"], group["status_reason"]) == ("ACTIVE", None)
    cloud.assign("a")
    assert shown(cloud.alice, GROUPS, group["id"])["status"] == "ACTIVE"
    cloud.report("a", extensions=["port_forwarding"])
    found = shown(cloud.alice, GROUPS, group["id"])
    assert (found["status"], cloud.router in found["status_reason"]) == ("ERROR", True)
    assert [each["id"] for each in listed(cloud.alice, status="ERROR")] == [group["id"]]
    assert listed(cloud.alice, status="ACTIVE") == []
    changed = change(cloud.alice, GROUPS, group["id"], name="wall").json["firewall_group"]
    assert changed["status"] == "ERROR"
    cloud.report("a", extensions=["router_firewall"])
    found = shown(cloud.alice, GROUPS, group["id"])
    assert (found["status"], found["status_reason"]) == ("ACTIVE", None)


def test_a_router_without_a_host_lacks_what_every_agent_lacks(cloud: Cloud) -> None:
    unassigned = uuid4()

    def is_lacking() -> bool:
        return unassigned in cloud.context.database.read(
            lambda view: find_without_extension(view, [unassigned], "router_firewall")
        )

    assert not is_lacking()
    for host, reported, lacking in (
        ("a", {"extensions": []}, True),
        ("b", {"extensions": ["router_firewall"]}, False),
        ("b", {"extensions": ["qos"]}, True),
        ("b", {}, False),
    ):
        cloud.report(host, **reported)
        assert is_lacking() is lacking


def test_local_parts_without_the_extension_count_for_distributed_routers(cloud: Cloud) -> None:
    cloud.report("a", extensions=["router_firewall"], agent_mode="dvr_snat")
    group = make(cloud.alice, GROUPS, ports=cloud.ports)
    for changes in ({"admin_state_up": False}, {"distributed": True}):
        assert cloud.admin.put(f"routers/{cloud.router}", {"router": changes}).status == 200
    assert shown(cloud.alice, GROUPS, group["id"])["status"] == "ACTIVE"
    cloud.report("b", extensions=[], agent_mode="legacy")
    assert shown(cloud.alice, GROUPS, group["id"])["status"] == "ACTIVE"
    cloud.report("c", extensions=[], agent_mode="dvr")
    assert shown(cloud.alice, GROUPS, group["id"])["status"] == "ERROR"
