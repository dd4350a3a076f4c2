"""Tests of what a state source gives to an L3 agent, and of the requests that it answers."""

from __future__ import annotations

from typing import Any, cast

from attrs import evolve

from netfw.drivers.state_source import StateSource
from netfw.drivers.values.agent_requests import EnabledServices, FindPorts
from netfw.drivers.values.subscription import Service
from netfw.model.port import Port
from netfw.model.resource import ref
from netfw.model.router import ExternalGateway
from netfw.model.values.address import IpAddress
from netfw.model.values.common_fields import Status
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.case import WIDE, StateSourceCase
from netfw.testing.conformance.state_source.environment import Follower, SourceEnvironment
from netfw.testing.conformance.state_source.reader_steps import refs, up


class RouterTests(StateSourceCase):
    """An L3 agent that runs one router."""

    def address_of(self, at: SourceEnvironment, port: Port) -> IpAddress:
        """Return the address that the backend stored for *port*."""
        found = {item.id: item for item in at.backend.items() if isinstance(item, Port)}
        return found[port.id].fixed_ips[0].address

    @proves(StateSource, 1)
    def test_a_gateway_brings_the_external_network_and_its_subnets(self) -> None:
        ports = samples.ROUTER_PORT, samples.GATEWAY_PORT
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, *ports, samples.ROUTER_ASSIGNMENT))
            found = Follower(at.source, samples.L3_HERE).catch_up().keys()
            assert found >= self.refs((*ports, samples.OTHER_NET, samples.OTHER_SUBNET))
            at.backend.commit((), (ref(samples.GATEWAY_PORT),))
            left = Follower(at.source, samples.L3_HERE).catch_up().keys()
            assert ref(samples.OTHER_SUBNET) not in left

    @proves(StateSource, 1)
    def test_a_router_brings_interfaces_networks_floating_ips_and_forwardings(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.ROUTER_PORT, samples.ROUTER_ASSIGNMENT))
            assert Follower(at.source, samples.L3_HERE).catch_up().keys() == self.refs(
                (
                    samples.ROUTER,
                    samples.ROUTER_PORT,
                    samples.NET,
                    samples.QOS,
                    samples.SUBNET,
                    samples.SEGMENT,
                )
            ) | refs((samples.FLOATING, samples.NEIGHBOUR, samples.FORWARDED, samples.FORWARDING))

    @proves(StateSource, 1)
    def test_policies_of_gateways_and_floating_ips_come_with_them(self) -> None:
        network = samples.OTHER_NET.id
        gateway = ExternalGateway(network_id=network, qos_policy_id=samples.QOS.id)
        router = evolve(samples.ROUTER, gateway=gateway)
        floating = evolve(samples.FLOATING, qos_policy_id=samples.QOS.id)
        plain = samples.ROUTER, samples.FLOATING
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.ROUTER_ASSIGNMENT))
            host, policy = Follower(at.source, samples.L3_HERE), ref(samples.QOS)
            assert policy not in host.catch_up()
            for limited in (router, floating):
                at.backend.commit((limited,))
                assert policy in host.catch_up()
                renamed = evolve(samples.QOS, name=f"for {ref(limited)}")
                at.backend.commit((renamed,))
                assert cast(Any, host.catch_up()[policy]).name == renamed.name
                at.backend.commit(plain)
                assert policy not in host.catch_up()

    @proves(StateSource, 10)
    def test_a_report_on_a_router_and_its_floating_ips_counts(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.ROUTER_PORT, samples.ROUTER_ASSIGNMENT))
            found = Follower(at.source, samples.L3_HERE).catch_up()
            for key in (ref(samples.ROUTER), ref(samples.FLOATING)):
                at.source.report([up(found[key], samples.THERE, Service.L3)])
                assert at.backend.status(key, Service.L3) is not Status.ACTIVE
                at.source.report([up(found[key], samples.HERE, Service.L3)])
                assert at.backend.status(key, Service.L3) is Status.ACTIVE

    @proves(StateSource, 11)
    def test_a_source_names_the_services_that_are_enabled(self) -> None:
        with self.make_environment(WIDE) as at:
            found = at.source.request(EnabledServices())
            assert "router" in found
            assert at.source.request(EnabledServices()) == found

    @proves(StateSource, 11)
    def test_ports_are_found_on_their_network_and_behind_its_router(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.ROUTER_PORT))
            address = self.address_of(at, samples.NEIGHBOUR)
            for place in ({"network": samples.NET.id}, {"router": samples.ROUTER.id}):
                found = at.source.request(FindPorts(address=address, **place))
                assert ref(samples.NEIGHBOUR) in refs(found), place
            assert not at.source.request(FindPorts(address=address, network=samples.OTHER_NET.id))
