"""Rules of the extension for router firewalls."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.router_contribution import RouterRule
from netfw.model.router import Router
from netfw.model.router_firewall import FirewallAction, FirewallGroup, FirewallRule
from netfw.model.values.address import as_network
from netfw.model.values.ids import FirewallGroupId, FirewallRuleId, PortId
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import ICMP, TCP, UDP
from netfw.testing.conformance.l3_extension import make_grant
from netfw.testing.conformance.router.distributed_factories import make_distributed
from netfw.testing.conformance.router.factories import make_site
from netfw_drivers.l3_extensions.router_firewall import RouterFirewallExtension

pytestmark = pytest.mark.spec("L3-81")


def rule(action: str = "allow", **values: Any) -> FirewallRule:
    return FirewallRule(id=FirewallRuleId(UUID(int=1)), action=FirewallAction(action), **values)


def contribute(site: Any, *ports: PortId, **rules: Any) -> tuple[RouterRule, ...]:
    extension = RouterFirewallExtension()
    group = FirewallGroup(id=FirewallGroupId(UUID(int=9)), ports=ports, **rules)
    view = ExtendedRouter(router=Router(id=site.router, firewall_groups=(group,)), state=site.state)
    made = extension.contribute(site.router, view, make_grant(extension.grant_request()))
    return () if made is None else made.rules


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (rule(), "-j RETURN"),
        (rule("deny", source=as_network("0.0.0.0/0")), "-j DROP"),
        (
            rule(
                source=as_network("10.0.0.0/8"),
                destination=as_network("10.1.0.5/32"),
                protocol=TCP,
                source_ports=PortRange(1000, 2000),
                destination_ports=PortRange.single(80),
            ),
            "-s 10.0.0.0/8 -d 10.1.0.5/32 -p tcp -m tcp --sport 1000:2000 --dport 80 -j RETURN",
        ),
        (rule("reject", protocol=TCP), "-p tcp -j REJECT --reject-with tcp-reset"),
        (rule("reject", protocol=UDP), "-p udp -j REJECT --reject-with icmp-port-unreachable"),
        (
            rule("reject", ip_version=6, protocol=ICMP),
            "-p ipv6-icmp -j REJECT --reject-with icmp6-port-unreachable",
        ),
        (rule(protocol=47), "-p 47 -j RETURN"),
    ],
)
def test_rules_are_in_the_chain_of_their_group(given: FirewallRule, words: str) -> None:
    site = make_site()
    made = contribute(site, site.full.interfaces[0].id, ingress=(given,))
    chain = [
        " ".join(each.words)
        for each in made
        if each.subchain.startswith("ingress") and each.ip_version == given.ip_version
    ]
    assert chain == ["-m conntrack --ctstate INVALID -j DROP", words, "-j DROP"]


def test_chains_are_entered_by_the_ports_of_the_group() -> None:
    site = make_site()
    port = site.full.interfaces[0].id
    made = [each for each in contribute(site, port) if each.enter and each.ip_version == 6]
    assert [(each.in_port, each.out_port) for each in made] == [(port, None), (None, port)]
    assert [each.enter.split("-")[0] for each in made] == ["egress", "ingress"]


def test_a_distributed_router_filters_at_the_parts_that_lead_outside() -> None:
    site = make_distributed()
    inner, central = site.local.interfaces[1].id, site.central.ports[1].id
    outer = site.central.gateway.port.id
    made = [each for each in contribute(site, inner) if each.enter and each.ip_version == 4]
    assert [(each.in_port, each.out_port) for each in made] == [
        (inner, outer),
        (central, None),
        (outer, inner),
        (None, central),
    ]


def test_groups_of_ports_that_are_elsewhere_contribute_nothing() -> None:
    assert contribute(make_site(), PortId(UUID(int=5))) == ()
