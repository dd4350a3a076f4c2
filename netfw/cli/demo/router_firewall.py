"""A part of the router section: a firewall at an interface of the router."""

from __future__ import annotations

from netfw.cli.demo.agents import TIMEOUT, becomes_true
from netfw.cli.demo.report import DemoReport
from netfw.cli.demo.router_topology import WEB, RoutedSite
from netfw.cli.demo.tcp import arrives, carries, connected

_CLIENT = f"""
web = network.create_firewall_rule(action="allow", protocol="tcp", destination_port="{WEB}")
policy = network.create_firewall_policy(firewall_rules=[web.id])
network.create_firewall_group(ports=[violet_gateway.id], ingress_firewall_policy_id=policy.id)
"""


def demo_firewall(report: DemoReport, site: RoutedSite) -> None:
    """Let connections to port 80 alone into a network; then remove the firewall."""
    report.step(
        "Put a firewall before violet",
        ["a rule at the router's interface, in force for connections that exist, too"],
    )
    report.quote(_CLIENT.strip().splitlines())
    network, server = site.cloud.network, site.cloud.named("violet1").fixed_ips[0]
    address, listener = str(server["ip_address"]), site.listeners["violet1"]
    (port,) = (
        each.id
        for each in network.ports(device_id=site.router.id)
        if each.fixed_ips[0]["subnet_id"] == server["subnet_id"]
    )
    with connected(site.amber, address, listener) as connection:
        rule = network.create_firewall_rule(
            action="allow", protocol="tcp", destination_port=str(WEB)
        )
        policy = network.create_firewall_policy(firewall_rules=[rule.id])
        group = network.create_firewall_group(ports=[port], ingress_firewall_policy_id=policy.id)
        silent = becomes_true(lambda: not _pings(site, address))
        report.check("amber1 does not ping violet1 any more", silent)
        report.check(f"it connects to port {WEB}", arrives(site.amber, address, listener))
        report.check("and a connection from before goes on", carries(*connection, TIMEOUT))
    network.update_firewall_group(group, ports=[])
    network.delete_firewall_group(group)
    network.delete_firewall_policy(policy)
    network.delete_firewall_rule(rule)
    again = becomes_true(lambda: _pings(site, address))
    report.check("without the firewall, it pings violet1 again", again)


def _pings(site: RoutedSite, address: str) -> bool:
    return site.amber.ping(address, count=1, timeout=0.5).lost == 0
