"""QoS policies with an unchanged openstacksdk."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions

pytestmark = [
    pytest.mark.spec("API-07", "API-11"),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def net(cloud: Any) -> Any:
    """Return the SDK's network service."""
    return cloud.network


RULES: dict[str, dict[str, Any]] = {
    "bandwidth_limit": {"max_kbps": 1000, "max_burst_kbps": 100, "direction": "ingress"},
    "dscp_marking": {"dscp_mark": 26},
    "minimum_bandwidth": {"min_kbps": 5, "direction": "egress"},
    "minimum_packet_rate": {"min_kpps": 5, "direction": "any"},
    "packet_rate_limit": {"max_kpps": 7, "max_burst_kpps": 0, "direction": "egress"},
}


@pytest.mark.parametrize("type", RULES)
def test_rules_of_a_policy(net: Any, type: str) -> None:
    def call(verb: str, *given: Any, **attributes: Any) -> Any:
        return getattr(net, f"{verb}_qos_{type}_rule")(*given, **attributes)

    policy = net.create_qos_policy(name=f"with {type}")
    made = call("create", policy, **RULES[type])
    assert {name: getattr(made, name) for name in RULES[type]} == RULES[type]
    assert call("get", made.id, policy).id == made.id
    assert [each.id for each in getattr(net, f"qos_{type}_rules")(policy)] == [made.id]
    first = next(iter(RULES[type]))
    assert getattr(call("update", made.id, policy, **{first: 8}), first) == 8
    assert [each["type"] for each in net.get_qos_policy(policy).rules] == [type]
    with pytest.raises(exceptions.ConflictException, match="already"):
        call("create", policy, **RULES[type])
    call("delete", made.id, policy, ignore_missing=False)
    net.delete_qos_policy(policy, ignore_missing=False)


def test_what_uses_a_policy(net: Any) -> None:
    policy = net.create_qos_policy(name="slow", is_shared=True, description="for guests")
    network = net.create_network(name="guests", qos_policy_id=policy.id)
    subnet = net.create_subnet(network_id=network.id, ip_version=4, cidr="10.5.0.0/24")
    port = net.create_port(network_id=network.id)
    assert (port.qos_policy_id, port.qos_network_policy_id) == (None, policy.id)
    assert net.update_port(port, qos_policy_id=policy.id).qos_policy_id == policy.id
    public = net.create_network(name="out", is_router_external=True)
    net.create_subnet(network_id=public.id, ip_version=4, cidr="198.18.1.0/24")
    gateway = {"network_id": public.id, "qos_policy_id": policy.id}
    router = net.create_router(external_gateway_info=gateway)
    assert router.external_gateway_info["qos_policy_id"] == policy.id
    floating = net.create_ip(floating_network_id=public.id, qos_policy_id=policy.id)
    assert floating.qos_policy_id == policy.id
    with pytest.raises(exceptions.ConflictException, match="in use"):
        net.delete_qos_policy(policy)
    net.set_tags(policy, ["guests"])
    assert [each.id for each in net.qos_policies(tags="guests")] == [policy.id]
    assert net.find_qos_policy("slow").id == policy.id
    net.delete_ip(floating, ignore_missing=False)
    net.delete_router(router, ignore_missing=False)
    net.delete_port(port, ignore_missing=False)
    net.delete_subnet(subnet, ignore_missing=False)
    net.delete_network(network, ignore_missing=False)
    net.delete_network(public, ignore_missing=False)
    net.delete_qos_policy(policy, ignore_missing=False)


def test_types_of_rules(net: Any) -> None:
    assert {each.type for each in net.qos_rule_types()} == set(RULES)
    details = net.get_qos_rule_type("bandwidth_limit")
    assert [each["name"] for each in details.drivers] == ["openvswitch"]
