"""Router firewalls with an unchanged openstacksdk."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions

pytestmark = [
    pytest.mark.spec("L3-81", "API-11"),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def net(cloud: Any) -> Any:
    """Return the SDK's network service."""
    return cloud.network


def test_the_life_of_a_firewall(net: Any) -> None:
    assert net.find_extension("fwaas_v2") is not None
    web = net.create_firewall_rule(
        name="web", action="allow", protocol="tcp", destination_port="80:81", ip_version=4
    )
    ping = net.create_firewall_rule(name="ping", action="allow", protocol="icmp")
    assert net.find_firewall_rule("web").destination_port == "80:81"
    policy = net.create_firewall_policy(name="in", firewall_rules=[web.id])
    net.insert_rule_into_policy(policy.id, firewall_rule_id=ping.id, insert_before=web.id)
    assert net.get_firewall_policy(policy.id).firewall_rules == [ping.id, web.id]
    net.remove_rule_from_policy(policy.id, firewall_rule_id=ping.id)
    assert net.get_firewall_policy(policy.id).firewall_rules == [web.id]
    network = net.create_network(name="walled")
    subnet = net.create_subnet(network_id=network.id, ip_version=4, cidr="10.77.0.0/24")
    router = net.create_router(name="wall")
    port = net.add_interface_to_router(router, subnet=subnet.id)["port_id"]
    group = net.create_firewall_group(
        name="wall", ports=[port], ingress_firewall_policy_id=policy.id
    )
    assert (group.status, group.ports, group.admin_state_up) == ("ACTIVE", [port], True)
    assert [each.id for each in net.firewall_groups(name="wall")] == [group.id]
    with pytest.raises(exceptions.ConflictException, match="uses firewall policy"):
        net.delete_firewall_policy(policy, ignore_missing=False)
    with pytest.raises(exceptions.ConflictException, match="remove its ports first"):
        net.delete_firewall_group(group, ignore_missing=False)
    assert net.update_firewall_group(group, admin_state_up=False).status == "DOWN"
    group = net.update_firewall_group(group, ports=[], admin_state_up=True)
    assert group.status == "INACTIVE"
    net.delete_firewall_group(group, ignore_missing=False)
    net.delete_firewall_policy(policy, ignore_missing=False)
    for rule in (web, ping):
        net.delete_firewall_rule(rule, ignore_missing=False)
    net.remove_interface_from_router(router, subnet=subnet.id)
    net.delete_router(router)
    net.delete_network(network)
