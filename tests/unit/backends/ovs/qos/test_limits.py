"""Limits and flows of a port, by its policy and that of its network."""

from __future__ import annotations

from uuid import UUID

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import (
    BandwidthLimit,
    DscpMarking,
    MinimumBandwidth,
    MinimumPacketRate,
    PacketRateLimit,
    QosPolicy,
    QosRule,
)
from netfw.model.security_group import Direction
from netfw.model.values.ids import NetworkId, PortId, QosPolicyId, QosRuleId
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import TARGET
from netfw_drivers.ovs.qos.extension import QosExtension
from netfw_drivers.ovs.qos.plan.limits import Rate, make_limits, policy_of

pytestmark = pytest.mark.spec("L2-80")

RULE = QosRuleId(UUID(int=5))
OWN = QosPolicy(id=QosPolicyId(UUID(int=1)), name="own")
INHERITED = QosPolicy(id=QosPolicyId(UUID(int=2)), name="of the network")
NETWORK = Network(id=NetworkId(UUID(int=9)), qos_policy_id=INHERITED.id)
PORT = Port(id=PortId(UUID(int=3)), network_id=NETWORK.id, mac="fa:16:3e:00:00:03")
VIEW = ExtendedPort(
    port=PORT,
    network=NETWORK,
    device=SwitchDevice(name="tap3", ofport=7),
    related=(OWN, INHERITED),
)


@pytest.mark.parametrize(
    ("own", "owner", "policy"),
    [
        (OWN.id, "compute:nova", OWN),
        (None, "compute:nova", INHERITED),
        (None, "", INHERITED),
        (None, "network:dhcp", None),
        (None, "network:router_interface", None),
        (OWN.id, "network:router_interface", OWN),
        (QosPolicyId(UUID(int=8)), "compute:nova", None),
    ],
)
def test_the_policy_is_that_of_the_port_else_of_its_network(
    own: QosPolicyId | None, owner: str, policy: QosPolicy | None
) -> None:
    port = evolve(PORT, qos_policy_id=own, device_owner=owner)
    assert policy_of(evolve(VIEW, port=port)) == policy


@pytest.mark.parametrize(
    ("rule", "rate"),
    [
        (BandwidthLimit(id=RULE, max_kbps=10_000), Rate(10_000, 4000)),
        (BandwidthLimit(id=RULE, max_kbps=10_000, max_burst_kbps=500), Rate(10_000, 500)),
        (BandwidthLimit(id=RULE, max_kbps=10), Rate(10, 80)),
        (BandwidthLimit(id=RULE, max_kbps=0), None),
        (BandwidthLimit(id=RULE, max_kbps=2**31 - 1), Rate(2**31 - 1, 858993459)),
    ],
)
def test_bandwidth_has_a_burst_with_which_connections_reach_it(
    rule: BandwidthLimit, rate: Rate | None
) -> None:
    limits = make_limits((rule,))
    assert limits.bits.get(Direction.EGRESS) == rate
    assert (limits.packets, bool(limits)) == ({}, rate is not None)


@pytest.mark.parametrize(
    ("rule", "rate"),
    [
        (PacketRateLimit(id=RULE, max_kpps=10), Rate(10_000, 4000)),
        (PacketRateLimit(id=RULE, max_kpps=10, max_burst_kpps=1), Rate(10_000, 1000)),
        (PacketRateLimit(id=RULE, max_kpps=2**31 - 1), Rate(2**32 - 1, 2**32 - 1)),
        (PacketRateLimit(id=RULE, max_kpps=0), None),
    ],
)
def test_packets_are_counted_in_thousands_as_far_as_meters_count(
    rule: PacketRateLimit, rate: Rate | None
) -> None:
    assert make_limits((rule,)).packets.get(Direction.EGRESS) == rate


def made(*rules: QosRule) -> SwitchContribution | None:
    """Return the contribution to the port with *rules*."""
    extension = QosExtension()
    grant = ExtensionLayout().granted(extension.grant_request()).grants["qos"]
    view = evolve(VIEW, related=(evolve(INHERITED, rules=rules),))
    return extension.contribute(PORT.id, view, grant)


def flows_of(*rules: QosRule) -> dict[str, of.Flow]:
    """Return the flows of the port with *rules*, by match and table."""
    found = made(*rules)
    flows = () if found is None else found.flows
    return {f"{flow.table} {flow.match}": flow for flow in flows}


def test_a_port_without_limits_has_no_flows() -> None:
    assert flows_of() == {}
    assert flows_of(BandwidthLimit(id=RULE, max_kbps=0)) == {}


def test_each_direction_has_its_own_meters() -> None:
    both = [
        kind(id=QosRuleId(UUID(int=number)), direction=direction, **{rate: 10})
        for number, (kind, rate, direction) in enumerate(
            (kind, rate, direction)
            for kind, rate in ((BandwidthLimit, "max_kbps"), (PacketRateLimit, "max_kpps"))
            for direction in Direction
        )
    ]
    limits = [
        (flow.match, action.limit)
        for flow in flows_of(*both).values()
        for action in flow.actions
        if isinstance(action, of.Meter)
    ]
    sent, received = of.in_port(7), TARGET.is_(7)
    assert limits == [
        (sent, of.PacketLimit(0x00007, 10_000, 4000)),
        (sent, of.BitLimit(0x10007, 10, 80)),
        (received, of.PacketLimit(0x20007, 10_000, 4000)),
        (received, of.BitLimit(0x30007, 10, 80)),
    ]


def test_a_changed_limit_is_a_changed_flow_and_leaves_the_others() -> None:
    ingress = BandwidthLimit(id=QosRuleId(UUID(int=6)), max_kbps=10, direction=Direction.INGRESS)
    before = flows_of(BandwidthLimit(id=RULE, max_kbps=10), ingress)
    after = flows_of(BandwidthLimit(id=RULE, max_kbps=20), ingress)
    assert before.keys() == after.keys()
    (changed,) = [key for key, flow in after.items() if flow != before[key]]
    assert after[changed].cookie != before[changed].cookie


def test_marks_are_for_packets_that_the_port_sends_by_ip() -> None:
    marked = [
        str(flow.match)
        for flow in flows_of(DscpMarking(id=RULE, dscp_mark=26)).values()
        if of.set_field("ip_dscp", 26) in flow.actions
    ]
    assert marked == [str(of.in_port(7) & of.ipv4()), str(of.in_port(7) & of.ipv6())]


def test_bandwidth_is_guaranteed_to_what_the_port_sends_alone() -> None:
    rates = MinimumPacketRate(id=QosRuleId(UUID(int=7)), min_kpps=5)
    received = MinimumBandwidth(id=QosRuleId(UUID(int=8)), min_kbps=7, direction=Direction.INGRESS)
    sent = MinimumBandwidth(id=QosRuleId(UUID(int=6)), min_kbps=5, direction=Direction.EGRESS)
    assert made(rates, received) is None
    only = made(rates, received, sent)
    assert only is not None
    assert (only.flows, only.guaranteed_kbps) == ((), 5)
    limited = made(BandwidthLimit(id=RULE, max_kbps=10), sent)
    assert limited is not None
    assert limited.flows
    assert limited.guaranteed_kbps == 5


def test_a_port_without_a_number_has_no_flows_yet() -> None:
    extension = QosExtension()
    grant = ExtensionLayout().granted(extension.grant_request()).grants["qos"]
    policy = evolve(INHERITED, rules=(BandwidthLimit(id=RULE, max_kbps=10),))
    view = evolve(VIEW, related=(policy,), device=SwitchDevice(name="tap3"))
    assert extension.contribute(PORT.id, view, grant) is None
