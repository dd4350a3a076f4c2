"""Tests of what a state source gives to the hosts of a highly available router."""

from __future__ import annotations

from attrs import evolve

from netfw.drivers.state_source import StateSource
from netfw.drivers.values.reports import RoleReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.binding import Binding
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.case import WIDE, StateSourceCase
from netfw.testing.conformance.state_source.environment import Follower
from netfw.testing.conformance.state_source.reader_steps import cursor_of, refs, stored, up

HA_PORTS = {samples.HERE: samples.HA_PORT_HERE, samples.THERE: samples.HA_PORT_THERE}
EVERYTHING = (*samples.BACKGROUND, *samples.HA_RESOURCES, *samples.HA_ASSIGNMENTS)
AROUND_INTERFACE = (
    samples.HA_INTERFACE, samples.NET, samples.QOS, samples.SUBNET, samples.SEGMENT,
)  # fmt: skip


class HaRouterTests(StateSourceCase):
    """A highly available router on two hosts."""

    @proves(StateSource, 1)
    def test_each_host_of_an_ha_router_has_it_with_the_ha_ports_of_all(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            for host in HA_PORTS:
                found = Follower(at.source, Subscription(host, {Service.L3})).catch_up()
                assert found.keys() == self.refs((*samples.HA_RESOURCES, *AROUND_INTERFACE)), host

    @proves(StateSource, 1)
    def test_each_host_of_an_ha_router_wires_its_interface_and_its_own_ha_port(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            for host, own in HA_PORTS.items():
                found = Follower(at.source, Subscription(host, {Service.L2})).catch_up().keys()
                wired = (*AROUND_INTERFACE, own, samples.HA_NET, samples.HA_SUBNET)
                assert found >= self.refs(wired), host
                assert not found & (refs(HA_PORTS.values()) - {ref(own)}), host

    @proves(StateSource, 1)
    def test_hosts_of_an_ha_router_see_the_peers_of_its_networks(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            found = Follower(at.source, samples.POPULATED_HERE).catch_up().keys()
            assert found >= refs((samples.NEIGHBOUR, *HA_PORTS.values()))

    @proves(StateSource, 1)
    def test_other_hosts_of_the_network_see_the_interface_of_an_ha_router(self) -> None:
        third = Subscription("third", {Service.L2, Service.POPULATION})
        with self.make_environment(WIDE) as at:
            at.backend.commit((*EVERYTHING, samples.port(9, third.host)))
            assert ref(samples.HA_INTERFACE) in Follower(at.source, third).catch_up()

    @proves(StateSource, 4)
    @proves(StateSource, 5)
    def test_a_host_gets_and_loses_a_port_on_several_hosts(self) -> None:
        there = evolve(samples.HA_INTERFACE, binding=Binding(hosts={samples.THERE}))
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, there))
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((samples.HA_INTERFACE,))
            delta = at.source.changes(samples.L2_HERE, cursor)
            assert refs(delta.put) == self.refs(AROUND_INTERFACE)
            at.backend.commit((there,))
            delta = at.source.changes(samples.L2_HERE, delta.cursor)
            assert delta.drop == self.refs(AROUND_INTERFACE)

    @proves(StateSource, 6)
    def test_another_active_host_changes_a_port_on_several_hosts_and_nothing_else(self) -> None:
        hosts = samples.HA_INTERFACE.binding.hosts
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            cursors = {host: cursor_of(at, Subscription(host, {Service.L2})) for host in HA_PORTS}
            binding = Binding(host=samples.THERE, hosts=hosts)
            at.backend.commit((evolve(samples.HA_INTERFACE, binding=binding),))
            for host, cursor in cursors.items():
                delta = at.source.changes(Subscription(host, {Service.L2}), cursor)
                assert refs(delta.put) == {ref(samples.HA_INTERFACE)}, host
                assert not delta.drop, host

    @proves(StateSource, 10)
    def test_each_host_reports_on_a_port_on_several_hosts(self) -> None:
        for host in HA_PORTS:
            with self.make_environment(WIDE) as at:
                at.backend.commit(EVERYTHING)
                port = stored(at, samples.HA_INTERFACE)
                at.source.report([up(port, "third")])
                assert at.backend.status(ref(port), Service.L2) is not Status.ACTIVE
                at.source.report([up(port, host)])
                assert at.backend.status(ref(port), Service.L2) is Status.ACTIVE, host

    @proves(StateSource, 10)
    def test_the_last_role_of_each_host_of_a_router_counts(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            target, (here, there) = ref(samples.HA_ROUTER), HA_PORTS
            at.source.report([_role(here, HaRole.STANDBY), _role("third", HaRole.ACTIVE)])
            assert at.backend.roles(target) == {here: HaRole.STANDBY}
            at.source.report([_role(here, HaRole.ACTIVE), _role(there, HaRole.STANDBY, 10**6)])
            assert at.backend.roles(target) == {here: HaRole.ACTIVE, there: HaRole.STANDBY}

    @proves(StateSource, 10)
    def test_the_role_of_a_host_that_does_not_have_the_router_any_more_is_void(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(EVERYTHING)
            at.source.report([_role(host, HaRole.STANDBY) for host in HA_PORTS])
            at.backend.commit((), (samples.HA_ASSIGNMENTS[0],))
            left = at.backend.roles(ref(samples.HA_ROUTER))
            assert left == {samples.THERE: HaRole.STANDBY}


def _role(host: str, role: HaRole, revision: int = 0) -> RoleReport:
    return RoleReport(ref=ref(samples.HA_ROUTER), revision=revision, host=host, role=role)
