"""Ports that the source in memory makes for agents, and what it looks up for them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.agent_requests import (
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    ResolveDevices,
    SetPrefix,
)
from netfw.errors import Conflict, NotFound
from netfw.model.resource import ref
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import eui64
from netfw.model.values.json_document import JsonDocument
from netfw.state.distributed_routing import derive_routing_mac
from netfw.state.memory_source import MemorySource
from netfw.testing.conformance.state_source import samples
from tests.unit.state.cursors import cursor


def test_a_dhcp_port_left_by_a_dead_host_is_adopted():
    dhcp = {"device_id": "reserved_dhcp_port", "device_owner": "network:dhcp"}
    left = evolve(samples.port(7, samples.THERE), **dhcp)
    strange = evolve(samples.port(6, samples.THERE), device_id="reserved_dhcp_port")
    source = MemorySource(samples.NET, samples.SUBNET, strange, left)
    port = source.request(ensure())
    assert port.id == left.id
    assert port.binding.host == samples.HERE
    assert port.fixed_ips == left.fixed_ips


def test_a_dhcp_port_gets_a_free_address_and_keeps_those_it_has():
    taken = evolve(
        samples.port(1, samples.HERE),
        fixed_ips=(evolve(samples.NEIGHBOUR.fixed_ips[0], address=samples.SUBNET.cidr[1]),),
    )
    source = MemorySource(samples.NET, samples.SUBNET, taken)
    port = source.request(ensure())
    assert [str(fixed.address) for fixed in port.fixed_ips] == ["10.0.0.2"]
    source.request(ReleaseDhcpPort(network=samples.NET.id, host=samples.HERE))
    source.request(ReleaseDhcpPort(network=samples.NET.id, host=samples.HERE))
    assert ref(port) not in source.resources()


def ensure(network=samples.NET, *subnets):
    wanted = frozenset(subnet.id for subnet in subnets or (samples.SUBNET,))
    return EnsureDhcpPort(network=network.id, host=samples.HERE, subnets=wanted)


def test_a_dhcp_port_that_cannot_be_is_refused_with_the_reason():
    source = MemorySource(samples.NET, evolve(samples.SUBNET, cidr="10.0.0.0/30"))
    with pytest.raises(NotFound, match="no network"):
        source.request(ensure(samples.OTHER_NET))
    with pytest.raises(NotFound, match="no subnet"):
        source.request(ensure(samples.NET, samples.OTHER_SUBNET))
    for number in (1, 2):
        address = samples.SUBNET.cidr[number]
        fixed = evolve(samples.NEIGHBOUR.fixed_ips[0], address=address)
        source.put(evolve(samples.port(number, samples.HERE), fixed_ips=(fixed,)))
    with pytest.raises(Conflict, match="no free address"):
        source.request(ensure())


@pytest.mark.parametrize("cidr", ["10.0.0.8/31", "10.0.0.8/32", "fd00::8/128"])
def test_a_subnet_of_one_or_two_addresses_serves_them(cidr):
    subnet = evolve(samples.SUBNET, cidr=cidr, gateway=None, allocation_pools=())
    port = MemorySource(samples.NET, subnet).request(ensure())
    assert port.fixed_ips[0].address == subnet.cidr[0]


def test_ports_are_found_on_a_network_and_behind_a_router():
    source = MemorySource(*samples.BACKGROUND, samples.ROUTER_PORT)
    address = samples.NEIGHBOUR.fixed_ips[0].address
    [found] = source.request(FindPorts(address=address, network=samples.NET.id))
    assert found.id == samples.NEIGHBOUR.id
    assert source.request(FindPorts(address=address, router=samples.ROUTER.id)) == (found,)
    assert source.request(FindPorts(address=address, network=samples.OTHER_NET.id)) == ()
    assert source.request(ResolveDevices(ports=frozenset({found.id}))) == (found,)


def test_a_port_is_found_by_the_link_local_address_that_follows_from_its_mac():
    source = MemorySource(*samples.BACKGROUND, samples.ROUTER_PORT)
    address = eui64(ip_network("fe80::/64"), samples.NEIGHBOUR.mac)
    for place in ({"network": samples.NET.id}, {"router": samples.ROUTER.id}):
        [found] = source.request(FindPorts(address=address, **place))
        assert found.id == samples.NEIGHBOUR.id
    assert source.request(FindPorts(address=address, network=samples.OTHER_NET.id)) == ()
    assert source.request(FindPorts(address=address + 4096, network=samples.NET.id)) == ()


def test_a_dhcp_port_derives_its_address_where_hosts_do():
    slaac = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    subnet = evolve(samples.SUBNET, cidr="fd00::/64", gateway=None, allocation_pools=(), **slaac)
    port = MemorySource(samples.NET, subnet).request(ensure())
    assert [fixed.address for fixed in port.fixed_ips] == [eui64(subnet.cidr, port.mac)]


@pytest.mark.spec("L3-32")
def test_a_delegated_prefix_renumbers_its_subnet_and_ports():
    subnet = evolve(
        samples.SUBNET,
        cidr=ip_network("::/64"),
        gateway="::1",
        allocation_pools=(),
        dns_nameservers=(),
        host_routes=(),
        ipv6_ra_mode=Ipv6Mode.SLAAC,
        ipv6_address_mode=Ipv6Mode.SLAAC,
        subnet_pool_id="prefix_delegation",
    )
    own = evolve(samples.WEB_HERE.fixed_ips[0], subnet_id=subnet.id, address=ip_address("::7"))
    port = evolve(samples.WEB_HERE, fixed_ips=(own,))
    source = MemorySource(subnet, port)
    prefix = ip_network("2001:db8:1::/64")
    source.request(SetPrefix(router=samples.ROUTER.id, subnet=subnet.id, prefix=prefix))
    found = source.resources()
    assert found[ref(subnet)].cidr == prefix
    assert str(found[ref(subnet)].gateway) == "2001:db8:1::1"
    assert [str(each.address) for each in found[ref(port)].fixed_ips] == ["2001:db8:1::7"]
    before = cursor(source)
    source.request(SetPrefix(router=samples.ROUTER.id, subnet=subnet.id, prefix=prefix))
    assert cursor(source) == before
    source.request(SetPrefix(router=samples.ROUTER.id, subnet=subnet.id, prefix=None))
    assert source.resources()[ref(subnet)].provisional


def test_a_prefix_of_a_subnet_that_is_not_delegated_is_refused():
    with pytest.raises(NotFound):
        MemorySource().request(
            SetPrefix(router=samples.ROUTER.id, subnet=samples.SUBNET.id, prefix=None)
        )
    with pytest.raises(Conflict, match="not delegated"):
        MemorySource(samples.SUBNET).request(
            SetPrefix(router=samples.ROUTER.id, subnet=samples.SUBNET.id, prefix=None)
        )


@pytest.mark.spec("RPC-08")
def test_a_host_has_one_routing_mac_address_that_other_hosts_get():
    source = MemorySource(samples.AGENT_THERE)
    before = cursor(source)
    here, there = (source.request(EnsureHostMac(host)) for host in (samples.HERE, samples.THERE))
    assert here != there
    assert source.request(EnsureHostMac(samples.HERE)) == here
    agents = source.changes(samples.L2_THERE, before).put
    assert {agent.host: agent.routing_mac for agent in agents} == {
        samples.HERE: here,
        samples.THERE: there,
    }
    known = next(agent for agent in agents if agent.host == samples.THERE)
    assert known.tunnel_address == samples.AGENT_THERE.tunnel_address


@pytest.mark.spec("RPC-08")
def test_a_routing_mac_address_that_an_agent_states_is_kept():
    facts = JsonDocument({"routing_mac": "fa:16:3f:00:00:01"})
    source = MemorySource(evolve(samples.AGENT_THERE, configurations=facts))
    assert source.request(EnsureHostMac(samples.THERE)) == "fa:16:3f:00:00:01"
    taken = JsonDocument({"routing_mac": derive_routing_mac(samples.HERE)})
    source.put(evolve(samples.AGENT_THERE, configurations=taken))
    with pytest.raises(Conflict, match="is that of host there: state another routing_mac"):
        source.request(EnsureHostMac(samples.HERE))


@pytest.mark.spec("RPC-08")
def test_a_host_has_one_port_on_an_external_network_until_it_releases_it():
    external = evolve(samples.NET, external=True)
    v6 = evolve(samples.SUBNET, id=UUID(int=35), cidr=ip_network("2001:db8::/64"), gateway=None)
    taken = evolve(samples.FLOATING, network_id=external.id, address=samples.SUBNET.cidr[1])
    source = MemorySource(external, samples.SUBNET, v6, taken)
    request = EnsureGatewayPort(network=external.id, host=samples.HERE)
    port = source.request(request)
    other = source.request(evolve(request, host=samples.THERE))
    assert source.request(request) == port
    addresses = [fixed.address for each in (port, other) for fixed in each.fixed_ips]
    assert len(set(addresses)) == 4
    assert taken.address not in addresses
    assert port.mac != other.mac
    found = {ref(each) for page in source.snapshot(samples.L3_HERE) for each in page.put}
    assert found >= {ref(port), ref(external)}
    assert ref(other) not in found
    for _ in range(2):
        source.request(ReleaseGatewayPort(network=external.id, host=samples.HERE))
    assert ref(port) not in source.resources()
    assert ref(other) in source.resources()


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        ((), NotFound, "there is no network"),
        ((samples.NET, samples.SUBNET), Conflict, "is not external"),
        ((evolve(samples.NET, external=True),), Conflict, "has no address left"),
    ],
)
def test_a_gateway_port_that_cannot_be_is_refused(state, error, text):
    with pytest.raises(error, match=text):
        MemorySource(*state).request(EnsureGatewayPort(network=samples.NET.id, host=samples.HERE))
