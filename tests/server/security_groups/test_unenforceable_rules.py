"""Rules and groups that no firewall of a live agent enforces are refused, on a real database."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.firewall import FirewallCapability
from netfw.errors import InvalidInput
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.server_context import ServerContext
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from netfw_drivers.iptables.driver import IptablesFirewallDriver
from netfw_drivers.null.firewall import NullFirewallDriver
from netfw_drivers.ovs.firewall.plan.plan import CAPABILITIES
from tests.server.core.agent_samples import beat, grow_old
from tests.server.security_groups.client import ANNA, group, rule

pytestmark = pytest.mark.spec("API-06", "FW-01")

SWITCH = sorted(each.value for each in CAPABILITIES if isinstance(each, FirewallCapability))
BRIDGE = sorted(each.value for each in IptablesFirewallDriver().describe().capabilities)
NOOP = sorted(each.value for each in NullFirewallDriver().describe().capabilities)
PORTED = [{"protocol": name} for name in ("dccp", "33", "udplite", "136")]


class Cloud:
    """A plugin, and agents that report their firewalls."""

    def __init__(self, context: ServerContext) -> None:
        self.plugin = SecurityGroupsPlugin(context)
        self._heartbeats = HeartbeatHandler(context)

    def report(self, *hosts: str, firewall: list[str] | None) -> None:
        """Report a firewall; ``None``: an agent that does not say what it can do."""
        configurations: dict[str, Any] = {"bridge_mappings": {}}
        if firewall is not None:
            configurations["firewall_capabilities"] = firewall
        self._heartbeats([beat(host, **configurations) for host in hosts])


@pytest.fixture
def cloud(context: ServerContext) -> Cloud:
    return Cloud(context)


@pytest.mark.parametrize("options", PORTED)
def test_ports_that_no_live_firewall_matches_are_refused(
    cloud: Cloud, context: ServerContext, options: dict[str, Any]
) -> None:
    id = group(cloud.plugin)["id"]
    cloud.report("a", "b", firewall=SWITCH)
    cloud.report("noop", firewall=NOOP)
    with pytest.raises(InvalidInput) as caught:
        rule(cloud.plugin, id, **options)
    assert "leave port_range_min and port_range_max out" in caught.value.problems["port_range_min"]
    rule(cloud.plugin, id, **options, port_range_min=None, port_range_max=None)
    cloud.report("c", firewall=BRIDGE)
    made = rule(cloud.plugin, id, **options)
    cloud.plugin.delete(ANNA, "security_group_rule", made["id"])
    grow_old(context, "c", 1000)
    with pytest.raises(InvalidInput, match="no firewall of a live agent"):
        rule(cloud.plugin, id, **options)


@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_ports_that_every_firewall_matches_are_accepted(cloud: Cloud, protocol: str) -> None:
    cloud.report("a", firewall=SWITCH)
    rule(cloud.plugin, group(cloud.plugin)["id"], protocol=protocol)


@pytest.mark.parametrize("firewalls", [[], [NOOP], [SWITCH, None], [["filtering"], SWITCH, BRIDGE]])
def test_what_some_firewall_may_enforce_is_accepted(
    cloud: Cloud, firewalls: list[list[str] | None]
) -> None:
    for number, firewall in enumerate(firewalls):
        cloud.report(f"host{number}", firewall=firewall)
    rule(cloud.plugin, group(cloud.plugin)["id"], protocol="dccp")


def test_an_agent_of_another_kind_says_nothing_about_firewalls(cloud: Cloud) -> None:
    cloud.report("a", firewall=SWITCH)
    firewall = {"bridge_mappings": {}, "firewall_capabilities": BRIDGE}
    for kind in ("DHCP agent", "L3 agent", "Metadata agent"):
        cloud._heartbeats([beat("a", kind, **firewall), beat("b", kind, bridge_mappings={})])
    with pytest.raises(InvalidInput):
        rule(cloud.plugin, group(cloud.plugin)["id"], protocol="dccp")


def test_a_report_of_nonsense_is_no_firewall(cloud: Cloud) -> None:
    cloud.report("a", firewall=SWITCH)
    cloud.report("b", firewall=[{"dccp-ports": 1}, 7, "dccp-ports"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput):
        rule(cloud.plugin, group(cloud.plugin)["id"], protocol="dccp")


def test_stateless_groups_need_a_firewall_that_has_them(cloud: Cloud) -> None:
    cloud.report("a", firewall=["filtering"])
    known = group(cloud.plugin)
    with pytest.raises(InvalidInput) as caught:
        group(cloud.plugin, stateful=False)
    assert caught.value.problems.keys() == {"stateful"}
    with pytest.raises(InvalidInput):
        cloud.plugin.update(ANNA, "security_group", known["id"], {"stateful": False})
    cloud.report("b", firewall=SWITCH)
    group(cloud.plugin, stateful=False)
    cloud.plugin.update(ANNA, "security_group", known["id"], {"stateful": False})


def test_all_agents_of_a_large_cloud_are_asked(cloud: Cloud) -> None:
    hosts = [f"host{number}" for number in range(230)]
    cloud.report(*hosts[:-1], firewall=SWITCH)
    id = group(cloud.plugin)["id"]
    with pytest.raises(InvalidInput):
        rule(cloud.plugin, id, protocol="dccp")
    cloud.report(hosts[-1], firewall=BRIDGE)
    rule(cloud.plugin, id, protocol="dccp")
