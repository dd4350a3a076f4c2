"""Warnings of routers that need L3 extensions which the agent does not run."""

from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l3.operator_warnings import NEEDED_EXTENSIONS, extension_warnings
from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.model.floating_ip import ForwardedProtocol, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.resource import ref
from netfw.model.router import ConntrackHelper, HelperProtocol
from netfw.model.router_firewall import FirewallGroup
from netfw.model.values.ids import (
    ConntrackHelperId,
    FirewallGroupId,
    NdpProxyId,
    PortForwardingId,
    PortId,
    QosPolicyId,
)
from netfw.model.values.port_range import PortRange
from tests.unit.agents.l3.environment import EDGE, environments, floating_ip

POLICY = QosPolicyId(UUID(int=901))
FLOATING = floating_ip(20, EDGE)
GROUP = FirewallGroup(id=FirewallGroupId(UUID(int=902)), ports=[PortId(UUID(int=903))])
HELPER = ConntrackHelper(
    id=ConntrackHelperId(UUID(int=904)), protocol=HelperProtocol.TCP, port=21, helper="ftp"
)
PROXY = NdpProxy(
    id=NdpProxyId(UUID(int=905)),
    router_id=EDGE.id,
    port_id=PortId(UUID(int=906)),
    address="2001:db8::5",
)
FORWARDING = PortForwarding(
    id=PortForwardingId(UUID(int=907)),
    floating_ip_id=FLOATING.id,
    protocol=ForwardedProtocol.TCP,
    external_ports=PortRange(80, 80),
    internal_ports=PortRange(8080, 8080),
    internal_port_id=PortId(UUID(int=906)),
    internal_address="10.0.0.5",
)
NEEDS = {
    "port_forwarding": FORWARDING,
    "router_firewall": evolve(EDGE, firewall_groups=(GROUP,)),
    "conntrack_helper": evolve(EDGE, conntrack_helpers=(HELPER,)),
    "ndp_proxy": PROXY,
    "fip_qos": evolve(FLOATING, qos_policy_id=POLICY),
    "gateway_ip_qos": evolve(EDGE, gateway=evolve(EDGE.gateway, qos_policy_id=POLICY)),
}


@pytest.mark.parametrize("name", NEEDED_EXTENSIONS)
def test_an_extension_that_is_needed_and_missing_is_named_with_its_users(name):
    index = L3ResourceIndex()
    index.apply({ref(each): each for each in (EDGE, FLOATING)})
    assert extension_warnings(index, ()) == {}
    needing = NEEDS[name]
    index.apply({ref(needing): needing})
    assert extension_warnings(index, (name,)) == {}
    ((key, text),) = extension_warnings(index, ()).items()
    assert key == f"extension {name}"
    assert str(needing.id) in text
    assert f"add {name} to extensions" in text


def test_the_agent_reports_an_extension_that_is_missing():
    with environments() as environment:
        found = environment()
        assert found.ready().warnings == {}
        found.source.put(NEEDS["gateway_ip_qos"])
        assert "not in force" in found.ready().warnings["extension gateway_ip_qos"]
