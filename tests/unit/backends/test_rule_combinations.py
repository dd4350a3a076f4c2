"""The planners of all firewall drivers against every rule that the API accepts."""

from collections.abc import Callable, Mapping
from uuid import UUID

import pytest

from netfw.drivers.base import Capability
from netfw.drivers.firewall import Rules
from netfw.drivers.support.firewall_capabilities import unsupported_reason
from netfw.drivers.values.keys import GroupKey
from netfw.errors import PartlyInvalid
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import DCCP, PORTED, UDPLITE
from netfw.plan import Plan, Update
from netfw_drivers.iptables.driver import IptablesFirewallDriver
from netfw_drivers.nftables.driver import NftablesFirewallDriver
from netfw_drivers.ovs.firewall.plan.plan import CAPABILITIES
from tests.server.security_groups.rule_combinations import accepted_rules
from tests.unit.backends.iptables.samples import Kernel
from tests.unit.backends.nftables.samples import MirroredHost
from tests.unit.backends.ovs.firewall.samples import Bench

pytestmark = pytest.mark.slow

Groups = Mapping[GroupKey, Rules]
AcceptedRules = tuple[SecurityGroupRule, ...]


def plan_in_switch(groups: Groups) -> Plan:
    return Bench().apply(dict(groups))


def plan_on_bridge(groups: Groups) -> Plan:
    return Kernel().converge(Update(put=groups))


def plan_in_tables(groups: Groups) -> Plan:
    return MirroredHost().converge(Update(put=groups))


PLANNERS = [
    pytest.param(plan_in_switch, frozenset(CAPABILITIES), id="openflow"),
    pytest.param(plan_on_bridge, IptablesFirewallDriver().describe().capabilities, id="iptables"),
    pytest.param(plan_in_tables, NftablesFirewallDriver().describe().capabilities, id="nftables"),
]


@pytest.fixture
def rules() -> AcceptedRules:
    return accepted_rules()


@pytest.mark.spec("FW-01", "API-06")
def test_the_scan_has_every_protocol_and_kind_of_range(
    rules: AcceptedRules,
) -> None:
    assert {rule.protocol for rule in rules} == {None, *range(1, 256)}
    assert {rule.protocol for rule in rules if rule.ports is not None} == PORTED
    assert {rule.icmp_type for rule in rules if rule.icmp_code is not None} >= {0, 8, 255}
    assert len(rules) > 1000


@pytest.mark.spec("FW-01", "API-06")
@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize(("plan", "capabilities"), PLANNERS)
def test_every_accepted_rule_is_planned_or_left_out_by_name(
    rules: AcceptedRules,
    plan: Callable[[Groups], Plan],
    capabilities: frozenset[Capability],
    stateful: bool,
) -> None:
    by_key = {
        GroupKey(SecurityGroupId(UUID(int=number))): rule for number, rule in enumerate(rules)
    }
    groups = {key: Rules(frozenset({rule}), stateful) for key, rule in by_key.items()}
    refused = plan(groups).refused
    expected = {k for k, rule in by_key.items() if unsupported_reason(rule, capabilities)}
    assert refused.keys() == expected
    for key, error in refused.items():
        assert isinstance(error, PartlyInvalid)
        assert list(error.problems) == [f"rule {by_key[key].id}"]


def test_only_ports_of_two_protocols_are_beyond_a_firewall(
    rules: AcceptedRules,
) -> None:
    beyond = [rule for rule in rules if unsupported_reason(rule, CAPABILITIES)]
    assert {rule.protocol for rule in beyond} == {DCCP, UDPLITE}
    assert all(rule.ports is not None for rule in beyond)
