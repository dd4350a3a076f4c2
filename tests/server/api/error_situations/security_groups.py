"""Refusals of security groups and their rules."""

from __future__ import annotations

from typing import Any

from tests.server.api.environment import Reply
from tests.server.api.error_situations.cloud import NOWHERE, Cloud, situation


def _group(cloud: Cloud, **attributes: Any) -> str:
    return str(cloud.make("security_group", name="web", **attributes)["id"])


def _default_group(cloud: Cloud) -> str:
    (group,) = cloud.alice.list("security-groups", name="default")
    return str(group["id"])


def _rule(cloud: Cloud, **attributes: Any) -> Reply:
    body = {"security_group_id": _group(cloud), "direction": "ingress", **attributes}
    return cloud.create("security_group_rule", **body)


@situation("SecurityGroupNotFound", 404)
def absent_group(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"security-groups/{NOWHERE}")


@situation("SecurityGroupNotFound", 404)
def port_with_an_absent_group(cloud: Cloud) -> Reply:
    return cloud.create("port", network_id=cloud.network(), security_groups=[NOWHERE])


@situation("SecurityGroupNotFound", 404)
def rule_with_an_absent_remote_group(cloud: Cloud) -> Reply:
    return _rule(cloud, remote_group_id="first")


@situation("SecurityGroupInUse", 409)
def group_of_a_port(cloud: Cloud) -> Reply:
    group = _group(cloud)
    cloud.port(cloud.network(), security_groups=[group])
    return cloud.admin.delete(f"security-groups/{group}")


@situation("SecurityGroupCannotRemoveDefault", 409)
def deletion_of_the_default_group(cloud: Cloud) -> Reply:
    return cloud.alice.delete(f"security-groups/{_default_group(cloud)}")


@situation("SecurityGroupCannotUpdateDefault", 409)
def new_name_of_the_default_group(cloud: Cloud) -> Reply:
    return cloud.change("security-groups", _default_group(cloud), name="web")


@situation("SecurityGroupDefaultAlreadyExists", 409)
def second_default_group(cloud: Cloud) -> Reply:
    return cloud.create("security_group", name="default")


@situation("SecurityGroupConflict", 409)
def stateful_and_stateless_groups_of_a_port(cloud: Cloud) -> Reply:
    groups = [_group(cloud), _group(cloud, stateful=False)]
    return cloud.create("port", network_id=cloud.network(), security_groups=groups)


@situation("SecurityGroupRuleNotFound", 404)
def absent_rule(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"security-group-rules/{NOWHERE}")


@situation("SecurityGroupRuleExists", 409)
def rule_that_the_group_has(cloud: Cloud) -> Reply:
    group = _group(cloud)
    assert _rule(cloud, security_group_id=group, protocol="tcp").status == 201
    return _rule(cloud, security_group_id=group, protocol="tcp")


@situation("DuplicateSecurityGroupRuleInPost", 409)
def same_rule_twice(cloud: Cloud) -> Reply:
    rule = {"security_group_id": _group(cloud), "direction": "ingress", "protocol": "tcp"}
    return cloud.admin.post("security-group-rules", {"security_group_rules": [rule, rule]})


@situation("SecurityGroupMultipleRemoteEntites", 400)
def prefix_and_group_as_remote(cloud: Cloud) -> Reply:
    return _rule(cloud, remote_ip_prefix="192.0.2.0/24", remote_group_id=_group(cloud))


@situation("SecurityGroupProtocolRequiredWithPorts", 400)
def ports_without_protocol(cloud: Cloud) -> Reply:
    return _rule(cloud, port_range_min=80, port_range_max=80)


@situation("SecurityGroupInvalidProtocolForPort", 400)
def ports_of_a_protocol_without(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="gre", port_range_min=80, port_range_max=80)


@situation("SecurityGroupInvalidPortRange", 400)
def ports_in_the_wrong_order(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="tcp", port_range_min=81, port_range_max=80)


@situation("SecurityGroupInvalidPortRange", 400)
def ports_with_one_end(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="tcp", port_range_min=81)


@situation("SecurityGroupInvalidPortValue", 400)
def port_zero(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="tcp", port_range_min=0, port_range_max=80)


@situation("SecurityGroupInvalidPortValue", 400)
def port_below_zero(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="tcp", port_range_min=-16, port_range_max=80)


@situation("SecurityGroupInvalidIcmpValue", 400)
def number_that_is_no_icmp_type(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="icmp", port_range_min=256)


@situation("SecurityGroupMissingIcmpType", 400)
def icmp_code_without_type(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="icmp", port_range_max=1)


@situation("SecurityGroupEthertypeConflictWithProtocol", 400)
def icmpv6_in_a_rule_for_ipv4(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="ipv6-icmp", ethertype="IPv4")


@situation("SecurityGroupRuleInvalidProtocol", 400)
def unknown_protocol(cloud: Cloud) -> Reply:
    return _rule(cloud, protocol="carrier-pigeon")


@situation("SecurityGroupRuleInvalidEtherType", 400)
def unknown_ethertype(cloud: Cloud) -> Reply:
    return _rule(cloud, ethertype="IPv5")


@situation("SecurityGroupRuleParameterConflict", 400)
def prefix_of_the_other_family(cloud: Cloud) -> Reply:
    return _rule(cloud, remote_ip_prefix="2001:db8::/64", ethertype="IPv4")
