"""The desired state of routers and floating IPs, from resources."""

from ipaddress import ip_address, ip_interface, ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l3.desired import DesiredL3
from netfw.agents.l3.extensions import RouterExtensions
from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.agents.l3.router_parts import L3HostContext, NotOnHost
from netfw.agents.l3.router_state import NOT_CONTRIBUTED
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterState
from netfw.model.binding import Binding
from netfw.model.port import FixedIp
from netfw.model.resource import ref
from netfw.model.router import ExternalGateway
from netfw.model.values.ids import AddressScopeId, NetworkId
from netfw.model.values.route import Route
from netfw.state.dependencies import Assignment
from tests.unit.agents.l2.environment import learn
from tests.unit.agents.l3.environment import (
    BLUE,
    BLUE_SUBNET,
    CLOUD,
    EDGE,
    EDGE_BLUE,
    EDGE_OUT,
    HERE,
    INNER,
    OUTSIDE,
    OUTSIDE_SUBNET,
    RED_SUBNET,
    THERE,
    floating_ip,
    router_port,
    subnet,
)

RESOURCES = tuple(item for item in CLOUD if not isinstance(item, Assignment))


def desired(*more, **context):
    made = DesiredL3(L3HostContext(host=HERE, **context), L3ResourceIndex(), RouterExtensions([]))
    learn(made, [*RESOURCES, *more])
    return made


def state(found, of=EDGE):
    return found.value(RouterKey(of.id))


@pytest.mark.spec("L3-02")
def test_router_has_its_interfaces_and_gateway_with_addresses_and_mtu():
    full = state(desired()).full
    (interface,) = full.interfaces
    assert (interface.id, interface.network, interface.mtu) == (EDGE_BLUE.id, BLUE.id, 1400)
    assert interface.addresses == (ip_interface("10.1.0.1/24"),)
    assert interface.subnets == (BLUE_SUBNET,)
    assert full.gateway.port.addresses == (ip_interface("10.9.0.10/24"),)
    assert full.gateway.next_hops == (ip_address("10.9.0.1"),)
    assert full.gateway.snat
    assert state(desired(), INNER).full.gateway is None


def test_ports_that_are_administratively_down_are_left_out():
    found = desired(evolve(EDGE_BLUE, admin_up=False), evolve(EDGE_OUT, admin_up=False))
    assert (state(found).full.interfaces, state(found).full.gateway) == ((), None)


def test_gateway_has_the_other_subnets_of_its_network_on_the_link():
    other = subnet(OUTSIDE, 8)
    found = desired(other, evolve(EDGE, gateway=ExternalGateway(
        network_id=OUTSIDE.id, enable_snat=False)))  # fmt: skip
    gateway = state(found).full.gateway
    assert gateway.onlink_subnets == (ip_network("10.8.0.0/24"),)
    assert not gateway.snat


def test_ipv6_next_hop_is_the_subnets_the_configured_or_an_advertised_one():
    inside = subnet(BLUE, 6, cidr="2001:db8:6::/64", gateway="2001:db8:6::1")
    both = evolve(EDGE_BLUE, fixed_ips=(*EDGE_BLUE.fixed_ips, FixedIp(
        subnet_id=inside.id, address="2001:db8:6::1")))  # fmt: skip
    assert not state(desired()).full.gateway.ipv6_from_ra, "nothing inside has IPv6"
    found = state(desired(inside, both)).full.gateway
    assert found.ipv6_from_ra
    configured = ip_address("fe80::1")
    found = state(desired(inside, both, ipv6_gateway=configured)).full.gateway
    assert (found.next_hops[1], found.ipv6_from_ra) == (configured, False)
    outside = subnet(OUTSIDE, 7, cidr="2001:db8:7::/64", gateway="2001:db8:7::1")
    out = evolve(EDGE_OUT, fixed_ips=(*EDGE_OUT.fixed_ips, FixedIp(
        subnet_id=outside.id, address="2001:db8:7::10")))  # fmt: skip
    found = state(desired(inside, both, outside, out, ipv6_gateway=configured)).full.gateway
    assert (found.next_hops[1], found.ipv6_from_ra) == (ip_address("2001:db8:7::1"), False)


def test_routes_scopes_and_the_metadata_port_are_passed_on():
    scope = AddressScopeId(UUID(int=77))
    routes = (Route(destination="10.99.0.0/24", nexthop="10.1.0.99"),)
    found = desired(evolve(BLUE, ipv4_address_scope=scope), evolve(EDGE, routes=routes))
    assert state(found).full.interfaces[0].scopes == {4: scope}
    assert (state(found).routes, state(found).metadata_port) == (routes, 9697)
    assert state(desired(metadata_port=None)).metadata_port is None


@pytest.mark.spec("L3-08")
@pytest.mark.parametrize(
    ("change", "context", "reason"),
    [
        ({"ha": True}, {"supports_ha": False}, "highly available"),
        ({"distributed": True}, {}, "distributed"),
        ({"gateway": None}, {"handle_internal_only_routers": False}, "no gateway"),
        ({}, {"gateway_external_network_id": NetworkId(UUID(int=5))}, "this host has"),
    ],
)
def test_router_that_this_host_cannot_run_is_refused(change, context, reason):
    found = state(desired(evolve(EDGE, **change), **context))
    assert isinstance(found, NotOnHost)
    assert found.refused
    assert reason in found.reason


def test_distributed_router_of_other_hosts_is_none_of_this_hosts():
    elsewhere = evolve(EDGE_OUT, binding=Binding(host=THERE))
    found = desired(evolve(EDGE, distributed=True), elsewhere, floating_ip(20, EDGE))
    assert found.all_keys() == {RouterKey(INNER.id)}


def test_router_that_is_administratively_down_is_absent_with_its_floating_ips():
    one = floating_ip(20, EDGE)
    found = desired(one, evolve(EDGE, admin_up=False))
    for key in (RouterKey(EDGE.id), FloatingIpKey(one.id)):
        assert found.value(key) == NotOnHost(reason="the router is administratively down")
        assert found.group(key, found.value(key)) == EDGE.id
    learn(found, [EDGE])
    assert isinstance(found.value(RouterKey(EDGE.id)), RouterState)
    assert isinstance(found.value(FloatingIpKey(one.id)), FloatingIpNat)


def test_floating_ip_is_a_value_of_its_own_and_changes_no_router():
    found = desired()
    found.take_changed()
    one = floating_ip(20, EDGE)
    learn(found, [one])
    assert found.take_changed() == {FloatingIpKey(one.id)}
    assert found.value(FloatingIpKey(one.id)) == FloatingIpNat(
        router=EDGE.id, external_network=OUTSIDE.id,
        floating_address=ip_address("10.9.0.20"), fixed_address=ip_address("10.1.0.11"),
    )  # fmt: skip
    assert list(found.dependents(RouterKey(EDGE.id))) == [FloatingIpKey(one.id)]
    learn(found, [evolve(one, port_id=None, fixed_address=None, revision=2)])
    assert found.value(FloatingIpKey(one.id)) == NotOnHost(reason=NOT_CONTRIBUTED)
    assert found.take_changed() == {FloatingIpKey(one.id)}


def test_changed_network_or_subnet_concerns_the_routers_on_it():
    found = desired()
    found.take_changed()
    learn(found, [evolve(BLUE, mtu=1300)])
    assert found.take_changed() == {RouterKey(EDGE.id)}
    learn(found, [evolve(RED_SUBNET, dns_nameservers=("192.0.2.53",))])
    assert found.take_changed() == {RouterKey(INNER.id)}
    learn(found, [subnet(OUTSIDE, 8)])
    assert found.take_changed() == {RouterKey(EDGE.id)}
    learn(found, [router_port(INNER, BLUE_SUBNET, 254)])
    assert found.take_changed() == {RouterKey(INNER.id)}
    learn(found, drop=[ref(EDGE_OUT)])
    assert found.take_changed() == {RouterKey(EDGE.id)}
    assert (found.interfaces, found.gateways) == (3, 0)
    learn(found, [evolve(OUTSIDE_SUBNET, name="new")])
    assert not found.take_changed()
