"""How `openvswitch` binds ports, by what the L2 agent of a host really reports."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_address
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.state_report import L2AgentConfig, make_state_report
from netfw.drivers.base import DriverInfo
from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.server.mechanism import Binding, Bound, Refused
from netfw.drivers.values.switch_values import Bandwidth, Endpoint, SwitchFacts
from netfw.model.agent import Agent
from netfw.model.binding import VhostUserMode, VifDetails, VnicType
from netfw.model.qos import AnyDirection, MinimumBandwidth, MinimumPacketRate, QosRule
from netfw.model.security_group import Direction
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import QosPolicyId, QosRuleId
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver

FACTS = SwitchFacts(
    physical_networks=frozenset({"physnet1"}),
    mappings={"physnet1": "br-ex"},
    endpoints=frozenset({Endpoint(NetworkType.VXLAN, ip_address("192.0.2.1"))}),
    datapath_type="system",
    bridge="br-int",
    features=frozenset({"internal", "patch", "vxlan"}),
)
USERSPACE = evolve(
    FACTS,
    datapath_type="netdev",
    vhostuser_socket_dir="/run/vhu",
    features=FACTS.features | {"dpdkvhostuser", "dpdkvhostuserclient"},
)
HYBRID = DriverInfo(
    "iptables_hybrid", {FirewallCapability.FILTERING, FirewallCapability.HYBRID_PLUG}
)
SOCKET = f"/run/vhu/vhu{samples.PORT.id}"[: len("/run/vhu/") + 14]
LOCAL = Provider(network_type=NetworkType.LOCAL)
VLAN_ELSEWHERE = Provider(
    network_type=NetworkType.VLAN, physical_network="physnet9", segmentation_id=9
)
GENEVE = Provider(network_type=NetworkType.GENEVE, segmentation_id=5)


def agent(
    facts: SwitchFacts = FACTS,
    firewall: DriverInfo[FirewallCapability] | None = None,
    extensions: tuple[str, ...] = (),
) -> Agent:
    """Return the agent as its report describes it."""
    report = make_state_report(
        L2AgentConfig(host=samples.HOST),
        L2HostContext(host=samples.HOST, facts=facts),
        extensions=extensions,
        firewall=firewall,
        counts={},
        start=True,
    )
    return evolve(report.agent, alive=True)


def bind(
    *agents: Agent,
    segments: tuple[Provider, ...] = (samples.VXLAN,),
    vnic: VnicType = VnicType.NORMAL,
) -> Binding:
    port = evolve(samples.PORT, binding=evolve(samples.PORT.binding, vnic_type=vnic))
    offered = tuple(samples.segment(provider) for provider in segments)
    return OvsMechanismDriver().bind(samples.request(port, *agents, segments=offered))


def bound(*agents: Agent) -> Bound:
    answer = bind(*agents)
    assert isinstance(answer, Bound), answer
    return answer


def refused(*agents: Agent, **how: object) -> str:
    answer = bind(*agents, **how)  # type: ignore[arg-type]
    assert isinstance(answer, Refused), answer
    return answer.reason


@pytest.mark.spec("ML2-05")
def test_a_port_is_plugged_into_the_bridge_that_the_agent_reports() -> None:
    facts = evolve(FACTS, bridge="br-own")
    assert bound(agent(facts)) == Bound(
        segment=samples.segment(samples.VXLAN).id,
        vif_type="ovs",
        vif_details=VifDetails(
            port_filter=True,
            ovs_hybrid_plug=False,
            connectivity="l2",
            bridge_name="br-own",
            datapath_type="system",
        ),
    )


@pytest.mark.spec("ML2-05")
def test_ports_are_plugged_through_a_bridge_of_their_own_where_the_firewall_needs_it() -> None:
    assert bound(agent(firewall=HYBRID)).vif_details.ovs_hybrid_plug is True


@pytest.mark.spec("ML2-05")
@pytest.mark.parametrize(
    ("segments", "taken"),
    [
        ((samples.VXLAN, samples.VLAN), samples.VXLAN),
        ((samples.VLAN, samples.VXLAN), samples.VLAN),
        ((VLAN_ELSEWHERE, GENEVE, samples.VLAN), samples.VLAN),
        ((LOCAL,), LOCAL),
        ((Provider(network_type=NetworkType.FLAT, physical_network="physnet1"),), None),
    ],
)
def test_the_first_segment_that_the_agent_reaches_is_taken(
    segments: tuple[Provider, ...], taken: Provider | None
) -> None:
    answer = bind(agent(), segments=segments)
    assert isinstance(answer, Bound)
    assert answer.segment == samples.segment(taken or segments[0]).id


@pytest.mark.spec("ML2-05")
def test_segments_out_of_reach_are_refused_with_what_the_agent_has() -> None:
    reason = refused(agent(), segments=(VLAN_ELSEWHERE, GENEVE))
    assert "vlan 9 on physnet9: its bridge_mappings have physnet1" in reason
    assert "geneve 5: its tunnel_types are vxlan" in reason


@pytest.mark.spec("ML2-05")
def test_a_refused_binding_has_a_reason() -> None:
    dead = evolve(agent(), alive=False)
    received = evolve(dead, heartbeat_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    dhcp = evolve(agent(), agent_type="DHCP agent")
    assert refused() == "host host-1 has no Open vSwitch agent: it has no agent"
    assert refused(dhcp) == "host host-1 has no Open vSwitch agent: it has DHCP agent"
    assert refused(dead).endswith("is dead: it sent no heartbeat")
    earlier = evolve(dead, heartbeat_at=datetime(2025, 1, 2, 3, 4, tzinfo=UTC))
    message = refused(earlier, dead, received)
    assert message.endswith("it sent its last heartbeat at 2026-01-02T03:04:00+00:00")
    assert "direct is wanted" in refused(agent(), vnic=VnicType.DIRECT)
    assert "is on offer" in refused(agent(), segments=())


@pytest.mark.spec("ML2-05")
@pytest.mark.parametrize(
    "junk",
    [
        {"bridge_mappings": ["physnet1"]},
        {"tunnel_types": "vxlan"},
        {"tunnel_types": [7]},
        {"integration_bridge": 5},
        {"integration_bridge": "br int; reboot"},
        {"vhostuser_socket_dir": "relative"},
        {"vhostuser_socket_dir": "/" + "x" * 120},
    ],
)
def test_a_report_that_is_not_understood_is_a_refusal_that_names_the_key(
    junk: dict[str, object],
) -> None:
    strange = evolve(agent(), configurations=JsonDocument(junk))
    assert "the report of the Open vSwitch agent on host-1 is wrong" in refused(strange)


def test_a_living_agent_is_taken_beside_a_dead_one() -> None:
    assert isinstance(bind(evolve(agent(), alive=False), agent()), Bound)


@pytest.mark.spec("ML2-15")
def test_on_a_userspace_datapath_the_instance_serves_the_socket_that_the_switch_connects_to() -> (
    None
):
    answer = bound(agent(USERSPACE))
    assert answer.vif_type == "vhostuser"
    assert answer.vif_details == VifDetails(
        port_filter=True,
        ovs_hybrid_plug=False,
        connectivity="l2",
        bridge_name="br-int",
        datapath_type="netdev",
        vhostuser_mode=VhostUserMode.SERVER,
        vhostuser_ovs_plug=True,
        vhostuser_socket=SOCKET,
    )
    assert len(SOCKET.rpartition("/")[2]) == 14


@pytest.mark.spec("ML2-15")
def test_a_socket_directory_may_end_with_a_slash() -> None:
    facts = evolve(USERSPACE, vhostuser_socket_dir="/run/vhu/")
    assert bound(agent(facts)).vif_details.vhostuser_socket == SOCKET


@pytest.mark.spec("ML2-15")
def test_a_switch_that_can_only_serve_sockets_has_the_instance_connect() -> None:
    facts = evolve(USERSPACE, features=USERSPACE.features - {"dpdkvhostuserclient"})
    assert bound(agent(facts)).vif_details.vhostuser_mode is VhostUserMode.CLIENT


@pytest.mark.spec("ML2-15")
@pytest.mark.parametrize(
    "facts",
    [
        evolve(USERSPACE, vhostuser_socket_dir=None),
        evolve(USERSPACE, features=FACTS.features),
        evolve(USERSPACE, datapath_type="system"),
    ],
)
def test_without_what_vhost_user_needs_a_port_is_plugged_as_usual(facts: SwitchFacts) -> None:
    answer = bound(agent(facts))
    assert answer.vif_type == "ovs"
    assert answer.vif_details.vhostuser_socket is None


@pytest.mark.spec("ML2-15")
def test_no_port_bypasses_a_firewall_on_linux_bridges_by_vhost_user() -> None:
    answer = bound(agent(USERSPACE, HYBRID))
    assert answer.vif_type == "ovs"
    assert answer.vif_details.ovs_hybrid_plug is True


@pytest.mark.spec("ML2-05", "API-07")
def test_a_port_with_a_policy_is_bound_where_the_agent_enforces_it() -> None:
    policy = QosPolicyId(uuid4())
    plain = samples.request(samples.PORT, agent(), segments=(samples.segment(samples.VXLAN),))
    own = evolve(plain, port=evolve(samples.PORT, qos_policy_id=policy))
    inherited = evolve(plain, network=evolve(plain.network, qos_policy_id=policy))
    for request in (own, inherited):
        answer = OvsMechanismDriver().bind(request)
        assert isinstance(answer, Refused)
        assert "does not run the extension qos" in answer.reason
        able = evolve(request, agents=(agent(extensions=("qos",)),))
        assert isinstance(OvsMechanismDriver().bind(able), Bound)
    router = evolve(samples.PORT, device_owner=DeviceOwner.ROUTER_INTERFACE.value)
    assert isinstance(OvsMechanismDriver().bind(evolve(inherited, port=router)), Bound)


FLAT = Provider(network_type=NetworkType.FLAT, physical_network="physnet1")
RULE = QosRuleId(uuid4())
SENT = MinimumBandwidth(id=RULE, min_kbps=600)
RECEIVED = MinimumBandwidth(id=RULE, min_kbps=600, direction=Direction.INGRESS)
PACKETS = MinimumPacketRate(id=RULE, min_kpps=1, direction=AnyDirection.ANY)


@pytest.mark.spec("L2-80")
@pytest.mark.parametrize(
    ("rule", "provider", "egress", "allocated", "reason"),
    [
        (SENT, FLAT, 600, False, ""),
        (SENT, FLAT, 599, False, "600 kbit/s exceed the 599 of physnet1"),
        (SENT, FLAT, None, False, "have no egress for physnet1"),
        (SENT, samples.VXLAN, 600, False, "not kept on networks of type vxlan"),
        (SENT, LOCAL, 600, True, "not kept on networks of type local"),
        (RECEIVED, FLAT, 600, False, "binding:profile has no allocation"),
        (RECEIVED, FLAT, 600, True, ""),
        (PACKETS, samples.VXLAN, None, False, "binding:profile has no allocation"),
        (PACKETS, samples.VXLAN, None, True, ""),
    ],
)
def test_a_host_that_does_not_keep_a_guarantee_is_refused(
    rule: QosRule, provider: Provider, egress: int | None, allocated: bool, reason: str
) -> None:
    bandwidths = {"br-ex": Bandwidth(egress=egress, ingress=600)}
    able = agent(evolve(FACTS, bandwidths=bandwidths), extensions=("qos",))
    profile = JsonDocument({"allocation": {"group": "provider"}} if allocated else {})
    port = evolve(samples.PORT, binding=evolve(samples.PORT.binding, profile=profile))
    request = samples.request(port, able, segments=(samples.segment(provider),))
    answer = OvsMechanismDriver().bind(evolve(request, qos_rules=(rule,)))
    if reason:
        assert isinstance(answer, Refused)
        assert reason in answer.reason
        assert str(RULE) in answer.reason
    else:
        assert isinstance(answer, Bound)


@pytest.mark.parametrize("content", ["x", {"br-ex": 5}, {"br-ex": {"egress": "x"}}])
def test_a_wrong_report_of_bandwidths_is_refused(content: object) -> None:
    mapped = {"bridge_mappings": {"physnet1": "br-ex"}, "resource_provider_bandwidths": content}
    answer = bind(evolve(agent(), configurations=JsonDocument(mapped)))
    assert isinstance(answer, Refused)
    assert "resource_provider_bandwidths is" in answer.reason
