"""Connections to translated ports, as values."""

from ipaddress import ip_address
from uuid import UUID

import pytest

from netfw.drivers.contribution import RouterContribution, RouterRule, RuleChain, RuleTable
from netfw.drivers.keys import RouterKey
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.mirror import Mirror
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns.steps import RemoveConnections, RestoreTables
from netfw.model.ids import RouterId
from netfw.model.port_range import PortRange
from netfw.plan import Operation, Stage
from netfw_drivers.linux_router.plan.contributed_ports import (
    TranslatedPorts,
    parse_rule,
    plan_ended_connections,
)

KEY = RouterKey(RouterId(UUID(int=1)))
ADDRESS = "203.0.113.60"
WEB, RANGE, OTHER = (
    f"-d {address}/32 -p tcp -m tcp --dport {ports} -j DNAT --to-destination {to}"
    for address, ports, to in (
        (ADDRESS, "80", "10.0.0.2"),
        (ADDRESS, "5000:5002", "10.0.0.2:6000-6002/5000"),
        ("203.0.113.61", "80", "10.0.0.2"),
    )
)
RESTORE = Stage((Operation("x", "x", frozenset({KEY}), RestoreTables("ns", "router", ())),))


def ended(found, desired, stages=(RESTORE,)):
    chain = ChainKey(family=Family.IPV4, table="nat", name="forward-PRE")
    rules = tuple(
        RouterRule(table=RuleTable.NAT, chain=RuleChain.PREROUTING, words=tuple(line.split()))
        for line in desired
    )
    contribution = RouterContribution(owner="forward", rules=rules)
    present = Mirror()
    present.chains[chain] = tuple(found)
    planned = plan_ended_connections(KEY, "ns", (contribution,), present, stages)
    return [operation.payload for stage in planned for operation in stage.operations]


def removed(ports):
    return RemoveConnections("ns", ip_address(ADDRESS), "tcp", ports)


@pytest.mark.spec("L3-80")
@pytest.mark.parametrize(
    ("found", "desired", "expected"),
    [
        ([WEB, RANGE], [RANGE], [removed(PortRange.single(80))]),
        ([WEB], [WEB, RANGE], [removed(PortRange(5000, 5002))]),
        ([WEB], [WEB.replace("0.2", "0.3")], [removed(PortRange.single(80))]),
        ([WEB, RANGE], [RANGE, WEB], []),
        ([WEB, OTHER], [OTHER], []),
        ([], [WEB], []),
    ],
)
def test_connections_end_where_the_translation_of_a_kept_address_changes(found, desired, expected):
    assert ended(found, desired) == expected


def test_nothing_ends_without_a_change_of_rules():
    assert ended([WEB], [RANGE], stages=()) == []


@pytest.mark.parametrize(
    "line",
    [
        "-j ACCEPT",
        f"-d {ADDRESS}/32 -j DNAT --to-destination 10.0.0.2",
        f"-d {ADDRESS}/32 -p tcp -m tcp --dport http -j DNAT --to-destination 10.0.0.2",
        f"-d {ADDRESS}/32 -p tcp -m tcp --dport 0 -j DNAT --to-destination 10.0.0.2",
        f"-d {ADDRESS}/32 -p dccp -m dccp --dport 80 -j DNAT --to-destination 10.0.0.2",
    ],
)
def test_other_rules_translate_no_ports(line):
    assert list(parse_rule(line.split())) == []


def test_rule_of_a_range_is_parsed():
    (found,) = parse_rule(RANGE.split())
    assert found == TranslatedPorts(
        ip_address(ADDRESS), "tcp", PortRange(5000, 5002), "10.0.0.2:6000-6002/5000"
    )
