"""The desired parts of distributed routers on a host, and their floating IPs, from resources."""

from ipaddress import ip_address, ip_interface, ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l3.agent_gateway import AgentGatewaySpec, UnusedAgentGateway
from netfw.agents.l3.agent_mode import AgentMode
from netfw.agents.l3.router_parts import NotOnHost
from netfw.drivers.values.agent_requests import EnsureGatewayPort
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterPart
from netfw.errors import Conflict
from netfw.model.binding import Binding
from netfw.model.resource import ref
from netfw.model.values.ids import NetworkId
from tests.unit.agents.l2.environment import learn
from tests.unit.agents.l3.distributed import (
    CENTRAL,
    CENTRAL_ONE,
    DVR,
    DVR_BLUE,
    ELSEWHERE,
    LOCAL_ONE,
    LOCAL_TWO,
    OUT_HERE,
    OUT_THERE,
    PLAIN,
    REMOTE_ONE,
    ROUTER,
    SG_HERE,
    SG_THERE,
    agent_gateway_port,
    desired,
    instance,
)
from tests.unit.agents.l3.environment import (
    BLUE_SUBNET,
    EDGE,
    EDGE_BLUE,
    HA_NETWORK,
    HA_SUBNET,
    HERE,
    INNER,
    OUTSIDE,
    THERE,
    floating_ip,
    ha_port,
    subnet,
)

LOCAL_PART, CENTRAL_PART = RouterPart.LOCAL, RouterPart.CENTRAL
GATEWAY = AgentGatewayKey(OUTSIDE.id)
HA = (
    evolve(DVR, ha=True, vrid=7), HA_NETWORK, HA_SUBNET, ha_port(DVR, HERE, 1),
    ha_port(DVR, THERE, 2),
)  # fmt: skip


def state(found):
    return found.value(RouterKey(DVR.id))


def nat(found, floating):
    return found.value(FloatingIpKey(floating.id))


@pytest.mark.spec("L3-60", "L3-61")
@pytest.mark.parametrize("mode", ["dvr", "dvr_snat", "dvr_no_external"])
def test_host_of_an_instance_has_the_local_part_with_all_interfaces(mode):
    found = state(desired(*ELSEWHERE, agent_mode=mode))
    assert found.parts == {LOCAL_PART}
    (interface,) = found.local.interfaces
    assert interface.id == DVR_BLUE.id
    assert interface.addresses == (ip_interface("10.1.0.1/24"),)
    assert found.metadata_port == 9697


@pytest.mark.spec("L3-63")
def test_local_part_knows_the_address_of_the_central_part_on_each_subnet():
    found = state(desired(*ELSEWHERE)).local
    assert found.snat_addresses == {BLUE_SUBNET.id: ip_address("10.1.0.5")}
    assert (found.external_network, found.gateway_port) == (OUTSIDE.id, OUT_THERE.id)
    inner = state(desired(*ROUTER, evolve(DVR, gateway=None), SG_THERE)).local
    assert (inner.snat_addresses, inner.external_network) == ({}, None)


@pytest.mark.spec("L3-60")
def test_host_without_external_networks_has_no_agent_gateway():
    found = desired(*ELSEWHERE, LOCAL_ONE, agent_mode="dvr_no_external")
    assert state(found).local.external_network is None
    assert nat(found, LOCAL_ONE) == NotOnHost(
        reason=f"agent_mode of the host of its port, {HERE}, is dvr_no_external"
    )
    assert GATEWAY not in found.all_keys()


@pytest.mark.spec("L3-60", "L3-63")
@pytest.mark.parametrize("bound", [(OUT_HERE, SG_HERE), (OUT_HERE, SG_THERE), (OUT_THERE, SG_HERE)])
def test_host_of_the_gateway_has_the_central_part_beside_the_local_one(bound):
    found = state(desired(*ROUTER, *bound, agent_mode="dvr_snat"))
    assert found.parts == {LOCAL_PART, CENTRAL_PART}
    assert [port.id for port in found.central.ports] == [SG_HERE.id]
    assert found.central.ports[0].addresses == (ip_interface("10.1.0.5/24"),)
    assert found.central.gateway.port.addresses == (ip_interface("10.9.0.10/24"),)
    assert found.central.gateway.next_hops == (ip_address("10.9.0.1"),)
    assert found.central.gateway.snat
    assert [port.id for port in found.local.interfaces] == [DVR_BLUE.id]


def test_network_node_without_the_gateway_has_no_central_part():
    assert state(desired(*ELSEWHERE, agent_mode="dvr_snat")).parts == {LOCAL_PART}
    without = desired(*ROUTER, evolve(DVR, gateway=None), SG_HERE, agent_mode="dvr_snat")
    assert state(without).parts == {LOCAL_PART}
    down = desired(*CENTRAL, evolve(OUT_HERE, admin_up=False), agent_mode="dvr_snat")
    assert state(down).parts == {LOCAL_PART}


@pytest.mark.spec("L3-60")
@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"agent_mode": "dvr"}, "whose agent_mode is dvr; it needs dvr_snat"),
        ({"gateway_external_network_id": NetworkId(UUID(int=5))}, "this host has"),
    ],
)
def test_central_part_that_this_host_cannot_have_is_left_out_with_a_reason(context, words):
    found = desired(*CENTRAL, **{"agent_mode": "dvr_snat", **context})
    assert state(found).parts == {LOCAL_PART}
    assert words in found.left_out(DVR.id)
    found.take_changed()
    learn(found, [OUT_THERE, SG_THERE])
    assert found.left_out(DVR.id) == ""
    assert RouterKey(DVR.id) in found.take_changed(), "its outcome is another one"


@pytest.mark.spec("L3-60")
def test_legacy_host_refuses_what_is_assigned_to_it_and_ignores_the_rest():
    found = desired(*CENTRAL, LOCAL_ONE, agent_mode="legacy")
    assert state(found) == NotOnHost(
        reason="the router is distributed, and agent_mode of this host is legacy", refused=True
    )
    assert desired(*ELSEWHERE, LOCAL_ONE, agent_mode="legacy").all_keys() == set()


@pytest.mark.spec("L3-60")
@pytest.mark.parametrize("mode", AgentMode)
def test_whole_routers_are_on_hosts_of_two_modes_only(mode):
    found = desired(*ROUTER, *PLAIN, agent_mode=mode).value(RouterKey(INNER.id))
    if mode in ("legacy", "dvr_snat"):
        assert found.parts == {RouterPart.FULL}
    else:
        assert found.refused
        assert f"agent_mode of this host is {mode}" in found.reason


@pytest.mark.spec("L3-65")
def test_central_part_of_a_highly_available_router_takes_part_in_the_election():
    both = Binding(hosts={HERE, THERE})
    ports = (evolve(OUT_HERE, binding=both), evolve(SG_HERE, binding=both))
    found = desired(*ROUTER, *HA, *ports, agent_mode="dvr_snat", supports_ha=True)
    assert state(found).central.ha.vrid == 7
    assert state(found).central.ha.peers == (ip_address("169.254.192.2"),)
    assert found.ha_router(DVR.id) is not None
    assert (found.interfaces, found.gateways, found.ha_routers) == (1, 1, 1)
    compute = desired(*ELSEWHERE, *HA[:3], agent_mode="dvr", supports_ha=True)
    assert state(compute).parts == {LOCAL_PART}
    assert compute.ha_router(DVR.id) is None
    assert (compute.interfaces, compute.gateways, compute.ha_routers) == (1, 0, 0)


@pytest.mark.spec("L3-65")
@pytest.mark.parametrize(
    ("resources", "supports_ha", "words"),
    [(HA, False, "does not have"), (HA[:3], True, "no HA port for this host yet")],
)
def test_local_part_is_there_while_the_central_one_lacks_something(resources, supports_ha, words):
    found = desired(*CENTRAL, *resources, agent_mode="dvr_snat", supports_ha=supports_ha)
    assert state(found).parts == {LOCAL_PART}
    assert words in found.left_out(DVR.id)


def test_router_that_is_administratively_down_is_absent_with_the_floating_ips_of_this_host():
    found = desired(*ELSEWHERE, LOCAL_ONE, REMOTE_ONE, evolve(DVR, admin_up=False))
    reason = NotOnHost(reason="the router is administratively down")
    assert (state(found), nat(found, LOCAL_ONE), nat(found, REMOTE_ONE)) == (reason, reason, None)


@pytest.mark.spec("L3-62")
@pytest.mark.parametrize(
    ("resources", "mode", "expected"),
    [
        (ELSEWHERE, "dvr", {20: LOCAL_PART}),
        (CENTRAL, "dvr_snat", {20: LOCAL_PART, 22: CENTRAL_PART}),
        (CENTRAL, "dvr_no_external", {}),
    ],
)
def test_floating_ip_is_translated_by_its_host_or_by_the_central_part(resources, mode, expected):
    found = desired(*resources, LOCAL_ONE, CENTRAL_ONE, REMOTE_ONE, agent_mode=mode)
    values = (value for value in found.values.values() if isinstance(value, FloatingIpNat))
    nats = [value for value in values if not value.prepared]
    assert {value.floating_address.packed[-1]: value.part for value in nats} == expected


@pytest.mark.spec("L3-62")
def test_floating_ip_that_moves_to_another_host_leaves_this_one():
    found = desired(*ELSEWHERE, LOCAL_ONE)
    assert nat(found, LOCAL_ONE).part is LOCAL_PART
    learn(found, [evolve(LOCAL_ONE, host=THERE, revision=2)])
    assert nat(found, LOCAL_ONE).prepared, "it is delivered as long as it may come back"
    learn(found, drop=[ref(LOCAL_ONE)])
    assert found.all_keys() == {RouterKey(DVR.id)}


def test_floating_ip_follows_the_part_of_a_converted_router_with_the_same_gateway():
    plain = (EDGE, EDGE_BLUE, OUT_HERE)
    found = desired(*CENTRAL, CENTRAL_ONE, *plain, agent_mode="dvr_snat")
    assert nat(found, CENTRAL_ONE).part is RouterPart.FULL
    learn(found, [evolve(DVR, revision=3), DVR_BLUE])
    assert nat(found, CENTRAL_ONE).part is CENTRAL_PART


def test_floating_ip_of_a_network_that_this_host_does_not_have_is_refused():
    other = NetworkId(UUID(int=5))
    found = desired(*ELSEWHERE, LOCAL_ONE, gateway_external_network_id=other)
    assert nat(found, LOCAL_ONE).refused
    assert GATEWAY not in found.all_keys()
    assert state(found).local.external_network is None


def test_forwarded_ports_are_none_of_a_host_with_the_local_part_only():
    forwarding = floating_ip(24, DVR, None, port_id=None, host=HERE)
    assert nat(desired(*ELSEWHERE, forwarding), forwarding) is None
    central = desired(*CENTRAL, forwarding, agent_mode="dvr_snat")
    assert isinstance(nat(central, forwarding), NotOnHost), "no extension contributes it here"


@pytest.mark.spec("L3-68")
@pytest.mark.parametrize("mode", AgentMode)
def test_host_whose_floating_ips_are_translated_elsewhere_has_none(mode):
    of_inner = floating_ip(25, INNER, "10.2.0.11")
    found = desired(
        *CENTRAL, *PLAIN, LOCAL_ONE, CENTRAL_ONE, of_inner, agent_mode=mode, enable_inat_enat=True
    )
    assert {type(key) for key in found.all_keys()} == {RouterKey}
    if mode != "legacy":
        assert state(found).local.external_network is None


@pytest.mark.spec("L3-62")
def test_agent_gateway_is_desired_while_the_host_translates_a_floating_ip():
    found = desired(*ELSEWHERE, CENTRAL_ONE)
    assert GATEWAY not in found.all_keys()
    learn(found, [LOCAL_ONE, LOCAL_TWO])
    spec = found.value(GATEWAY)
    assert (spec.request, spec.own) == (EnsureGatewayPort(network=OUTSIDE.id, host=HERE), None)
    assert found.group(GATEWAY, spec) == GATEWAY
    learn(found, [evolve(LOCAL_ONE, host=None, revision=2)])
    assert GATEWAY in found.all_keys()
    learn(found, drop=[ref(LOCAL_TWO)])
    assert GATEWAY not in found.all_keys()


@pytest.mark.spec("L3-62")
def test_agent_gateway_has_the_delivered_port_and_the_ways_of_its_network():
    other, port = subnet(OUTSIDE, 8), agent_gateway_port()
    found = desired(*ELSEWHERE, LOCAL_ONE, port, agent_gateway_port(THERE, 41), other)
    spec = found.value(GATEWAY)
    assert spec.own == spec.describe(port)
    value = spec.value(spec.own)
    assert value.port.addresses == (ip_interface("10.9.0.40/24"),)
    assert value.next_hops == (ip_address("10.9.0.1"),)
    assert value.onlink_subnets == (ip_network("10.8.0.0/24"),)
    with pytest.raises(Conflict, match="has no address"):
        spec.value(spec.describe(evolve(port, fixed_ips=())))


def test_change_of_the_external_network_changes_the_agent_gateway():
    found = desired(*ELSEWHERE, LOCAL_ONE, agent_gateway_port())
    found.take_changed()
    learn(found, [evolve(OUTSIDE, mtu=1300)])
    assert GATEWAY in found.take_changed()
    learn(found, [subnet(OUTSIDE, 8)])
    assert GATEWAY in found.take_changed()
    learn(found, drop=[ref(agent_gateway_port())])
    assert found.take_changed() == {GATEWAY}
    assert found.value(GATEWAY).own is None
    learn(found, [evolve(OUTSIDE, name="new", mtu=1300)])
    assert not found.take_changed()


@pytest.mark.spec("L3-69")
@pytest.mark.parametrize("mode", ["legacy", "dvr", "dvr_no_external"])
def test_port_of_this_host_that_no_floating_ip_needs_is_unused(mode):
    own, other = agent_gateway_port(), agent_gateway_port(THERE, 41)
    found = desired(*ELSEWHERE, own, other, agent_mode=mode)
    assert found.value(GATEWAY) == UnusedAgentGateway(port=own.id)
    learn(found, drop=[ref(own)])
    assert GATEWAY not in found.all_keys()


@pytest.mark.spec("L3-67")
def test_router_of_a_port_that_is_prepared_here_is_there_before_the_port():
    # The source delivers router and networks first; the port then changes nothing here.
    found = desired(*ELSEWHERE)
    assert state(found).parts == {LOCAL_PART}
    found.take_changed()
    learn(found, [instance(11, THERE, prepared_hosts={HERE})])
    learn(found, [instance(11, HERE)])
    assert not found.take_changed()
    learn(found, [evolve(LOCAL_ONE)])
    assert found.take_changed() == {FloatingIpKey(LOCAL_ONE.id), GATEWAY}


@pytest.mark.spec("L3-67", "ML2-08")
def test_floating_ip_of_a_prepared_port_is_prepared_with_its_agent_gateway():
    # The source delivers a floating IP of another host to hosts that prepare for its port.
    found = desired(*ELSEWHERE, REMOTE_ONE)
    key = FloatingIpKey(REMOTE_ONE.id)
    assert nat(found, REMOTE_ONE).prepared
    assert found.prepared == {key}
    assert found.reported(key) is None, "its host reports it"
    assert isinstance(found.value(GATEWAY), AgentGatewaySpec)
    found.take_changed()
    learn(found, [evolve(REMOTE_ONE, host=HERE, revision=2)])
    assert found.take_changed() == {key}
    assert not nat(found, REMOTE_ONE).prepared
    assert found.reported(key) is not None
    learn(found, [evolve(REMOTE_ONE, host=THERE, revision=3)])
    assert found.take_changed() == {key}
    assert found.prepared == {key}
    learn(found, drop=[ref(REMOTE_ONE)])
    assert found.all_keys() == {RouterKey(DVR.id)}


@pytest.mark.parametrize(
    "context",
    [
        {"agent_mode": "dvr_no_external"},
        {"enable_inat_enat": True},
        {"gateway_external_network_id": NetworkId(UUID(int=5))},
    ],
)
def test_host_that_translates_no_floating_ip_prepares_none(context):
    assert desired(*ELSEWHERE, REMOTE_ONE, **context).all_keys() == {RouterKey(DVR.id)}


def test_one_more_floating_ip_changes_neither_router_nor_agent_gateway():
    found = desired(*ELSEWHERE, LOCAL_ONE)
    found.take_changed()
    learn(found, [LOCAL_TWO])
    assert found.take_changed() == {FloatingIpKey(LOCAL_TWO.id)}
