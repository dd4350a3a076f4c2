"""QoS policies of networks, ports, floating IPs and gateways of routers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from netfw.drivers.base import DriverInfo
from netfw.drivers.server.mechanism import Binding, BindingRequest, Bound, MechanismCapability
from netfw.drivers.values.qos_support import SupportedQosRule
from netfw.model.qos import QosRuleType
from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.qos_support import QosSupport
from netfw.server.l3.routers import RouterPlugin
from netfw.server.qos.policies import QosPlugin
from netfw.server.rbac.policies import RbacPlugin
from netfw_drivers.extension_drivers.qos import QosDriver
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.api.environment import Client, Reply, api
from tests.server.api.plugins import kept
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-07")


class LimitingDriver(LoggerMechanismDriver):
    """Binds every port, and enforces bandwidth limits only."""

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("limiting")

    def supported_qos_rules(self) -> tuple[SupportedQosRule, ...]:  # type: ignore[override]
        return (SupportedQosRule(type=QosRuleType.BANDWIDTH_LIMIT),)

    def bind(self, request: BindingRequest) -> Binding:
        return Bound(segment=request.segments[0].id, vif_type="ovs")


class Site:
    """An external network, a network of Alice behind her router, and policies."""

    def __init__(self, admin: Client, plugins: list[HandlerPlugin]) -> None:
        self.admin, self.alice, self.plugins = admin, admin.as_("alice/member"), plugins
        self.outside = admin.network(**{"router:external": True})["id"]
        admin.make("subnets", network_id=self.outside, cidr="203.0.113.0/24", ip_version=4)
        self.network = self.alice.network()["id"]
        self.alice.make("subnets", network_id=self.network, cidr="10.0.0.0/24", ip_version=4)

    def policy(self, **attributes: Any) -> str:
        made = self.admin.post("qos/policies", {"policy": {"project_id": "alice", **attributes}})
        assert made.status == 201, made.data
        return str(made.json["policy"]["id"])

    def add(self, policy: str, type: str, **attributes: Any) -> Reply:
        path = f"qos/policies/{policy}/{type}_rules"
        return self.admin.post(path, {f"{type}_rule": attributes})

    def marking(self) -> str:
        """Return a policy with a DSCP mark."""
        id = self.policy()
        assert self.add(id, "dscp_marking", dscp_mark=8).status == 201
        return id


@pytest.fixture
def site(empty_tables: Path, tmp_path: Path) -> Iterator[Site]:
    with kept(empty_tables, tmp_path, (QosDriver(),)) as core:
        context = core[0].context
        plugins = [*core, RouterPlugin(context), QosPlugin(context), RbacPlugin(context)]
        extending = ExtensionDrivers((QosDriver(),)).declared()
        yield Site(api(plugins, extending=extending).as_("root/admin"), plugins)


USERS = ("networks", "ports", "floatingips", "routers")


def attach(site: Site, user: str, policy: str | None, id: str | None = None) -> Reply:
    """Create *user* with *policy*, or change it."""
    own: dict[str, dict[str, Any]] = {
        "networks": {},
        "ports": {"network_id": site.network},
        "floatingips": {"floating_network_id": site.outside},
        "routers": {},
    }
    body: dict[str, Any] = {"qos_policy_id": policy}
    if user == "routers":
        body = {"external_gateway_info": {"network_id": site.outside, "qos_policy_id": policy}}
    singular = user.removesuffix("s")
    if id is not None:
        return site.alice.put(f"{user}/{id}", {singular: body})
    return site.alice.post(user, {singular: {**own[user], **body}})


def attached(reply: Reply) -> str | None:
    (body,) = reply.json.values()
    body = body.get("external_gateway_info", body)
    id: str | None = body["qos_policy_id"]
    return id


def made(reply: Reply) -> str:
    assert reply.status == 201, reply.data
    (body,) = reply.json.values()
    return str(body["id"])


@pytest.mark.parametrize("user", USERS)
def test_a_policy_is_attached_kept_while_used_and_taken_away(site: Site, user: str) -> None:
    policy, other = site.policy(), site.policy()
    id = made(attach(site, user, policy))
    assert attached(site.alice.get(f"{user}/{id}")) == policy
    refused = site.admin.delete(f"qos/policies/{policy}")
    assert (refused.status, refused.error["type"]) == (409, "QosPolicyInUse")
    assert id in refused.error["message"]
    assert attached(attach(site, user, other, id)) == other
    assert site.admin.delete(f"qos/policies/{policy}").status == 204
    assert attached(attach(site, user, None, id)) is None
    assert site.admin.delete(f"qos/policies/{other}").status == 204
    third = site.policy()
    assert attached(attach(site, user, third, id)) == third
    assert site.alice.delete(f"{user}/{id}").status == 204
    assert site.admin.delete(f"qos/policies/{third}").status == 204


@pytest.mark.parametrize("user", USERS)
def test_access_to_a_policy_stays_while_it_is_used(site: Site, user: str) -> None:
    policy = site.policy(project_id="bob")
    body = {
        "object_type": "qos_policy",
        "object_id": policy,
        "action": "access_as_shared",
        "target_tenant": "alice",
    }
    access = made(site.admin.post("rbac-policies", {"rbac_policy": body}))
    id = made(attach(site, user, policy))
    refused = site.admin.delete(f"rbac-policies/{access}")
    assert (refused.status, refused.error["type"]) == (409, "RbacPolicyInUse")
    assert "of qos_policy " in refused.error["message"]
    assert id in refused.error["message"]
    assert site.alice.delete(f"{user}/{id}").status == 204
    assert site.admin.delete(f"rbac-policies/{access}").status == 204


@pytest.mark.parametrize("user", USERS)
def test_a_policy_that_the_requester_may_not_see_is_not_found(site: Site, user: str) -> None:
    foreign = site.policy(project_id="bob")
    for missing in (foreign, str(uuid4())):
        refused = attach(site, user, missing)
        assert (refused.status, refused.error["type"]) == (404, "QosPolicyNotFound")
        assert missing in refused.error["message"]
    id = made(attach(site, user, None))
    assert attach(site, user, foreign, id).status == 404
    shared = site.policy(project_id="bob", shared=True)
    assert attached(attach(site, user, shared, id)) == shared


@pytest.mark.parametrize("user", USERS[:3])
def test_a_policy_that_the_requester_may_not_see_is_not_taken_away(site: Site, user: str) -> None:
    foreign = site.policy(project_id="bob")
    id = made(attach(site, user, None))
    singular = user.removesuffix("s")
    given = site.admin.put(f"{user}/{id}", {singular: {"qos_policy_id": foreign}})
    assert given.status == 200
    refused = attach(site, user, None, id)
    assert (refused.status, refused.error["type"]) == (403, "PolicyRemoveAuthorizationError")
    named = site.alice.put(f"{user}/{id}", {singular: {"description": "mine"}})
    assert attached(named) == foreign
    assert site.alice.delete(f"{user}/{id}").status == 204


def test_ports_show_the_policy_of_their_network(site: Site) -> None:
    first, second = site.policy(), site.policy()
    port = site.alice.make("ports", network_id=site.network)
    assert port["qos_network_policy_id"] is None
    network = f"networks/{site.network}"
    assert site.alice.put(network, {"network": {"qos_policy_id": first}}).status == 200
    own = f"ports/{port['id']}"
    shown = site.alice.get(own).json["port"]
    assert (shown["qos_policy_id"], shown["qos_network_policy_id"]) == (None, first)
    assert shown["revision_number"] == port["revision_number"]
    assert site.alice.put(network, {"network": {"qos_policy_id": second}}).status == 200
    renamed = site.alice.put(own, {"port": {"name": "x"}}).json["port"]
    assert renamed["qos_network_policy_id"] == second
    new = site.alice.make("ports", network_id=site.network)
    assert new["qos_network_policy_id"] == second


def test_another_gateway_begins_without_a_policy(site: Site) -> None:
    policy = site.policy()
    id = made(attach(site, "routers", policy))
    kept_info = {"external_gateway_info": {"network_id": site.outside}}
    assert attached(site.alice.put(f"routers/{id}", {"router": kept_info})) == policy
    none: dict[str, Any] = {"external_gateway_info": None}
    assert site.alice.put(f"routers/{id}", {"router": none}).status == 200
    assert attached(site.alice.put(f"routers/{id}", {"router": kept_info})) is None


@pytest.mark.parametrize("user", USERS[2:])
def test_routers_enforce_bandwidth_limits_only(site: Site, user: str) -> None:
    refused = attach(site, user, site.marking())
    assert (refused.status, refused.error["type"]) == (409, "QosRuleNotSupported")
    assert "dscp_marking" in refused.error["message"]
    policy = site.policy()
    assert site.add(policy, "bandwidth_limit", max_kbps=5).status == 201
    id = made(attach(site, user, policy))
    added = site.add(policy, "dscp_marking", dscp_mark=8)
    assert (added.status, added.error["type"]) == (409, "QosRuleNotSupported")
    assert id in added.error["message"]
    assert site.add(policy, "bandwidth_limit", max_kbps=5, direction="ingress").status == 201


def use(site: Site, *drivers: Any) -> None:
    """Declare what other drivers than those of the server enforce."""
    site.plugins[0].context.qos_support = QosSupport(drivers)


def test_a_rule_that_no_driver_enforces_is_refused(site: Site) -> None:
    policy = site.marking()
    use(site, LimitingDriver())
    refused = attach(site, "networks", policy)
    assert (refused.status, refused.error["type"]) == (409, "QosRuleNotSupportedByNetwork")
    refused = attach(site, "ports", policy)
    assert (refused.status, refused.error["type"]) == (409, "QosRuleNotSupported")
    limit = site.policy()
    assert site.add(limit, "bandwidth_limit", max_kbps=5).status == 201
    made(attach(site, "ports", limit))
    added = site.add(limit, "dscp_marking", dscp_mark=8)
    assert (added.status, added.error["type"]) == (409, "QosRuleNotSupported")
    types = site.admin.get("qos/rule-types", all_supported=True).json["rule_types"]
    assert types == [{"type": each.value} for each in sorted(QosRuleType)]


def test_without_drivers_no_rule_is_enforced(site: Site) -> None:
    policy = site.marking()
    use(site)
    assert attach(site, "ports", policy).error["type"] == "QosRuleNotSupported"
    assert attach(site, "ports", site.policy()).status == 201


BANDWIDTH = {"egress": "NET_BW_EGR_KILOBIT_PER_SEC", "ingress": "NET_BW_IGR_KILOBIT_PER_SEC"}


def test_guarantees_are_requested_of_hosts(site: Site) -> None:
    policy = site.policy()
    port = made(attach(site, "ports", policy))

    def shown(client: Client) -> dict[str, Any]:
        return dict(client.get(f"ports/{port}").json["port"])

    assert shown(site.admin)["resource_request"] is None
    assert "resource_request" not in shown(site.alice)
    for direction, rate in (("egress", 5), ("ingress", 7)):
        rule = site.add(policy, "minimum_bandwidth", min_kbps=rate, direction=direction)
        assert rule.status == 201
    assert site.add(policy, "minimum_packet_rate", min_kpps=3, direction="any").status == 201
    request = shown(site.admin)["resource_request"]
    rates, packets = request["request_groups"]
    assert rates["resources"] == {BANDWIDTH["egress"]: 5, BANDWIDTH["ingress"]: 7}
    assert rates["required"] == ["CUSTOM_NETWORK_TUNNEL_PROVIDER", "CUSTOM_VNIC_TYPE_NORMAL"]
    assert packets["resources"] == {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 3}
    assert packets["required"] == ["CUSTOM_VNIC_TYPE_NORMAL"]
    assert request["same_subtree"] == [rates["id"], packets["id"]]
    assert request == shown(site.admin)["resource_request"]


def test_a_server_without_policies_has_none_of_their_attributes(
    empty_tables: Path, tmp_path: Path
) -> None:
    with kept(empty_tables, tmp_path) as core:
        client = api([*core, RouterPlugin(core[0].context)]).as_("root/admin")
        assert client.get("qos/policies").status == 404
        body = {"floating_network_id": str(uuid4()), "qos_policy_id": str(uuid4())}
        assert client.post("floatingips", {"floatingip": body}).status == 400
        aliases = {each["alias"] for each in client.get("extensions").json["extensions"]}
        assert not [each for each in aliases if each.startswith("qos")]


def test_the_drivers_of_the_server_declare_what_they_enforce() -> None:
    support = QosSupport((OvsMechanismDriver(), LimitingDriver(), LoggerMechanismDriver()))
    assert support.types() == {QosRuleType.BANDWIDTH_LIMIT}
    assert support.types(by_any=True) == frozenset(QosRuleType)
    assert QosSupport((LoggerMechanismDriver(),)).types() == frozenset()


def test_a_gateway_whose_agent_lacks_the_extension_gets_no_policy(site: Site) -> None:
    policy, other = site.policy(), site.policy()
    id = made(attach(site, "routers", policy))
    report = HeartbeatHandler(site.plugins[0].context)
    report([beat("a", L3_AGENT, extensions=["fip_qos"])])
    for refused in (attach(site, "routers", other, id), attach(site, "routers", other)):
        assert (refused.status, refused.error["type"]) == (409, "RouterExtensionNotLoaded")
        assert "extension gateway_ip_qos" in refused.error["message"]
    assert site.alice.put(f"routers/{id}", {"router": {"name": "edge"}}).status == 200
    assert attached(attach(site, "routers", None, id)) is None
    report([beat("a", L3_AGENT, extensions=["gateway_ip_qos"])])
    assert attached(attach(site, "routers", other, id)) == other


def test_a_floating_ip_whose_agent_lacks_the_extension_gets_no_policy(site: Site) -> None:
    subnet = site.alice.get("subnets", network_id=site.network).json["subnets"][0]["id"]
    router = made(attach(site, "routers", None))
    path = f"routers/{router}/add_router_interface"
    assert site.alice.put(path, {"subnet_id": subnet}).status == 200
    port = site.alice.make("ports", network_id=site.network)["id"]
    report = HeartbeatHandler(site.plugins[0].context)
    report([beat("a", L3_AGENT, extensions=["gateway_ip_qos"])])
    policy = site.policy()
    id = made(attach(site, "floatingips", policy))

    def associate() -> Reply:
        return site.alice.put(f"floatingips/{id}", {"floatingip": {"port_id": port}})

    assert associate().error["type"] == "RouterExtensionNotLoaded"
    assert attached(attach(site, "floatingips", None, id)) is None
    assert associate().status == 200
    refused = attach(site, "floatingips", policy, id)
    assert (refused.status, refused.error["type"]) == (409, "RouterExtensionNotLoaded")
    assert "extension fip_qos" in refused.error["message"]
    report([beat("a", L3_AGENT, extensions=["fip_qos"])])
    assert attached(attach(site, "floatingips", policy, id)) == policy
