"""Tests of what a state source gives to the hosts of a distributed router."""

from __future__ import annotations

from ipaddress import IPv4Network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.state_source import StateSource
from netfw.drivers.values.agent_requests import EnsureGatewayPort, EnsureHostMac
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import NotSupported
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Resource, ref
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import FloatingIpId, NetworkId, RouterId, SubnetId
from netfw.model.values.json_document import JsonDocument
from netfw.state.dependencies import Assignment
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.case import WIDE, StateSourceCase
from netfw.testing.conformance.state_source.environment import Follower, SourceEnvironment
from netfw.testing.conformance.state_source.reader_steps import (
    HintedReader,
    cursor_of,
    refs,
    stored,
    up,
)

CENTRAL = "central"
ROUTER = Router(id=RouterId(UUID(int=62)), name="distributed", distributed=True)
EXTERNAL = Network(id=NetworkId(UUID(int=13)), name="external", external=True)
EXTERNAL_SUBNET = Subnet(
    id=SubnetId(UUID(int=33)), network_id=EXTERNAL.id, cidr=IPv4Network("203.0.113.0/24")
)


def _router_port(number: int, host: str, subnet: Subnet, owner: DeviceOwner) -> Port:
    port = samples.port(number, host)
    fixed = (FixedIp(subnet_id=subnet.id, address=subnet.cidr[10 + number]),)
    return evolve(
        port,
        network_id=subnet.network_id,
        fixed_ips=fixed,
        device_owner=owner.value,
        device_id=str(ROUTER.id),
    )


INTERFACE, OTHER_INTERFACE = (
    _router_port(number, "", subnet, DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED)
    for number, subnet in ((12, samples.SUBNET), (13, samples.OTHER_SUBNET))
)
CENTRAL_PORTS = (
    _router_port(14, CENTRAL, samples.SUBNET, DeviceOwner.ROUTER_CENTRALIZED_SNAT),
    _router_port(15, CENTRAL, samples.OTHER_SUBNET, DeviceOwner.ROUTER_CENTRALIZED_SNAT),
    _router_port(16, CENTRAL, EXTERNAL_SUBNET, DeviceOwner.ROUTER_GATEWAY),
)
AGENT_GATEWAY = evolve(
    _router_port(17, samples.HERE, EXTERNAL_SUBNET, DeviceOwner.FLOATING_IP_AGENT_GATEWAY),
    device_id="fg-here",
)
FLOATING_HERE = FloatingIp(
    id=FloatingIpId(UUID(int=73)),
    network_id=EXTERNAL.id,
    address=EXTERNAL_SUBNET.cidr[200],
    router_id=ROUTER.id,
    port_id=samples.WEB_HERE.id,
    fixed_address=samples.SUBNET.cidr[11],
    host=samples.HERE,
)
FLOATING_CENTRAL = evolve(
    FLOATING_HERE, id=FloatingIpId(UUID(int=74)), address=EXTERNAL_SUBNET.cidr[201], host=None
)
LINKS: tuple[Resource, ...] = (
    samples.NET, samples.QOS, samples.SEGMENT, samples.SUBNET, samples.OTHER_NET,
    samples.OTHER_SUBNET, INTERFACE, OTHER_INTERFACE,
)  # fmt: skip
"""The networks that the router connects, with its interfaces."""
ROUTED: tuple[Resource, ...] = (*LINKS, ROUTER, *CENTRAL_PORTS, EXTERNAL, EXTERNAL_SUBNET)
EVERYTHING = (
    *samples.BACKGROUND, *ROUTED, FLOATING_CENTRAL, Assignment(Service.L3, CENTRAL, ref(ROUTER)),
)  # fmt: skip
"""A distributed router with instances at ``THERE`` alone."""
PREPARED_HERE = evolve(
    samples.WEB_HERE, binding=Binding(host=samples.THERE, prepared_hosts={samples.HERE})
)


class DistributedRouterTests(StateSourceCase):
    """A distributed router, with its central part on a host of its own."""

    @proves(StateSource, 4)
    @proves(StateSource, 5)
    def test_a_distributed_router_comes_with_the_first_instance_and_goes_with_the_last(
        self,
    ) -> None:
        second = samples.port(8, samples.HERE, samples.OTHER_NET)
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            follower = Follower(at.source, samples.L3_HERE)
            assert follower.catch_up() == {}
            for first in (samples.WEB_HERE, PREPARED_HERE):
                at.backend.commit((first,))
                assert follower.catch_up().keys() == self.refs(ROUTED)
                at.backend.commit((second,), (ref(first),))
                assert follower.catch_up().keys() == self.refs(ROUTED)
                at.backend.commit((), (ref(second),))
                assert follower.catch_up() == {}

    @proves(StateSource, 9)
    def test_a_hint_follows_the_first_and_the_last_instance_behind_a_distributed_router(
        self,
    ) -> None:
        changes = ((samples.WEB_HERE,), ()), ((), (ref(samples.WEB_HERE),))
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            for put, drop in changes:
                cursor = cursor_of(at, samples.L3_HERE)
                agent = HintedReader(at, cursor, ROUTER, samples.L3_HERE)
                stop = at.source.watch(samples.L3_HERE, agent.hint)
                at.backend.commit(put, drop)
                assert agent.has_received(), f"no hint came after {put or drop}"
                stop()

    @proves(StateSource, 4)
    @proves(StateSource, 5)
    def test_an_l2_agent_gets_all_networks_of_a_distributed_router_and_their_peers(self) -> None:
        agents = (samples.AGENT_THERE,)
        peers = (samples.NEIGHBOUR, samples.DB_THERE, samples.OTHER_HOST_PORT)
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            switch = Follower(at.source, samples.L2_HERE)
            populated = Follower(at.source, samples.POPULATED_HERE)
            for first in (samples.WEB_HERE, PREPARED_HERE):
                at.backend.commit((first,))
                found = self.refs((*LINKS, *samples.WITH_WEB_HERE, *agents))
                assert switch.catch_up().keys() == found
                there = refs((*peers, *CENTRAL_PORTS[:2]))
                assert populated.catch_up().keys() == found | there
                at.backend.commit((), (ref(first),))
                assert switch.catch_up().keys() == populated.catch_up().keys() == self.refs(agents)

    @proves(StateSource, 6)
    def test_one_more_instance_changes_nothing_for_l3_agents(self) -> None:
        more = samples.port(8, samples.THERE), samples.port(9, samples.HERE, samples.OTHER_NET)
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, samples.WEB_HERE))
            for host in (samples.HERE, samples.THERE, CENTRAL):
                subscription = Subscription(host, {Service.L3})
                cursor = cursor_of(at, subscription)
                at.backend.commit(more)
                delta = at.source.changes(subscription, cursor)
                assert (delta.put, delta.drop) == ((), frozenset()), host
                at.backend.commit((), tuple(refs(more)))

    @proves(StateSource, 1)
    def test_a_dhcp_server_has_its_routers_and_ports_of_routers_have_none(self) -> None:
        server = evolve(samples.port(8, samples.HERE), device_owner=DeviceOwner.DHCP.value)
        others = AGENT_GATEWAY, evolve(CENTRAL_PORTS[0], binding=Binding(host=samples.HERE))
        on_external = evolve(INTERFACE, fixed_ips=AGENT_GATEWAY.fixed_ips)
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, *others, on_external))
            assert ref(ROUTER) not in Follower(at.source, samples.L3_HERE).catch_up()
            at.backend.commit((server, INTERFACE))
            assert ref(ROUTER) in Follower(at.source, samples.L3_HERE).catch_up()

    @proves(StateSource, 1)
    def test_a_floating_ip_is_on_its_host_or_where_the_router_is_assigned(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, samples.WEB_HERE, FLOATING_HERE))
            here, there, central = (
                Follower(at.source, Subscription(host, {Service.L3}))
                for host in (samples.HERE, samples.THERE, CENTRAL)
            )
            both = refs((FLOATING_HERE, FLOATING_CENTRAL))
            web = {ref(samples.WEB_HERE)}
            assert here.catch_up().keys() == self.refs(ROUTED) | {ref(FLOATING_HERE)} | web
            assert there.catch_up().keys() == self.refs(ROUTED)
            assert central.catch_up().keys() == self.refs(ROUTED) | {ref(FLOATING_CENTRAL)} | web
            at.backend.commit((evolve(FLOATING_HERE, host=samples.THERE),))
            assert here.catch_up().keys() == self.refs(ROUTED)
            assert there.catch_up().keys() & both == {ref(FLOATING_HERE)}
            at.backend.commit((evolve(FLOATING_HERE, host=None),))
            assert there.catch_up().keys() == self.refs(ROUTED)
            assert central.catch_up().keys() & both == both

    @proves(StateSource, 1)
    @proves(StateSource, 5)
    def test_a_prepared_host_gets_the_floating_ips_of_the_port(self) -> None:
        there = evolve(FLOATING_HERE, host=samples.THERE)
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, PREPARED_HERE))
            here = Follower(at.source, samples.L3_HERE)
            assert here.catch_up().keys() == self.refs(ROUTED)
            at.backend.commit((there,))
            assert here.catch_up().keys() == self.refs(ROUTED) | {ref(there)}
            free = evolve(there, router_id=None, port_id=None, fixed_address=None, host=None)
            at.backend.commit((free,))
            assert here.catch_up().keys() == self.refs(ROUTED)
            at.backend.commit((there,), (ref(PREPARED_HERE),))
            assert here.catch_up() == {}
            at.backend.commit((PREPARED_HERE,))
            found = Follower(at.source, samples.L3_HERE).catch_up()
            assert here.catch_up().keys() == found.keys() == self.refs(ROUTED) | {ref(there)}
            at.backend.commit((evolve(there, host=None),))
            assert ref(there) not in here.catch_up()

    @proves(StateSource, 10)
    def test_the_host_of_a_floating_ip_reports_on_it(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, samples.WEB_HERE, FLOATING_HERE))
            found = Follower(at.source, samples.L3_HERE).catch_up()[ref(FLOATING_HERE)]
            at.source.report([up(found, CENTRAL, Service.L3)])
            assert at.backend.status(ref(found), Service.L3) is not Status.ACTIVE
            at.source.report([up(found, samples.HERE, Service.L3)])
            assert at.backend.status(ref(found), Service.L3) is Status.ACTIVE

    @proves(StateSource, 1)
    def test_the_gateway_of_an_agent_and_its_network_are_on_its_host_alone(self) -> None:
        brought = refs((AGENT_GATEWAY, EXTERNAL, EXTERNAL_SUBNET))
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, AGENT_GATEWAY))
            assert _delivered(at, samples.HERE, Service.L3) == brought
            assert brought <= _delivered(at, samples.HERE, Service.L2)
            assert ref(AGENT_GATEWAY) not in _delivered(at, samples.THERE, Service.L3)

    @proves(StateSource, 1)
    def test_every_l2_agent_knows_the_hosts_with_a_routing_mac_address(self) -> None:
        facts = JsonDocument({"routing_mac": "fa:16:3f:00:00:01"})
        routing = evolve(samples.AGENT_THERE, configurations=facts)
        with self.make_environment(WIDE) as at:
            at.backend.commit((routing,))
            for host in (samples.HERE, samples.THERE):
                assert _delivered(at, host, Service.L2) == {ref(routing)}
            assert _delivered(at, samples.HERE, Service.L3) == set()

    @proves(StateSource, 11)
    def test_a_host_has_one_port_on_an_external_network(self) -> None:
        request = EnsureGatewayPort(network=EXTERNAL.id, host=samples.HERE)
        with self.make_environment(WIDE) as at:
            at.backend.commit((EXTERNAL, EXTERNAL_SUBNET, AGENT_GATEWAY))
            try:
                first = at.source.request(request)
            except NotSupported:
                pytest.skip("this source makes no gateway ports")
            assert ref(first) == ref(AGENT_GATEWAY)
            assert at.source.request(request) == first

    @proves(StateSource, 11)
    def test_a_host_has_one_routing_mac_address(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((samples.NET,))
            try:
                here = at.source.request(EnsureHostMac(samples.HERE))
            except NotSupported:
                pytest.skip("this source has no MAC addresses of hosts")
            assert at.source.request(EnsureHostMac(samples.HERE)) == here
            assert at.source.request(EnsureHostMac(samples.THERE)) != here

    @proves(StateSource, 10)
    def test_a_prepared_host_does_not_report_on_the_port(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            port = stored(at, PREPARED_HERE)
            at.source.report([up(port, samples.HERE)])
            assert at.backend.status(ref(port), Service.L2) is not Status.ACTIVE
            at.source.report([up(port, samples.THERE)])
            assert at.backend.status(ref(port), Service.L2) is Status.ACTIVE


def _delivered(at: SourceEnvironment, host: str, service: Service) -> set[object]:
    return set(Follower(at.source, Subscription(host, {service})).catch_up())
