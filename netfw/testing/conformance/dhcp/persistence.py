"""Persistence: leases and processes over restarts, and the server's device.

`DhcpDriver` promises 4 to 6.
"""

from __future__ import annotations

from ipaddress import IPv4Address

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.model.values.route import Route
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.dhcp.case import Deaths, DhcpCase, MakeDriver
from netfw.testing.conformance.dhcp.factories import ServedNetwork, a_subnet, make_network, wanted
from netfw.testing.conformance.dhcp.leases import ON_LINK


class DhcpPersistenceConformance(DhcpCase):
    """No restart of anything costs a client its address."""

    @proves(DhcpDriver, 4)
    def test_a_new_driver_interrupts_no_client(self, make_driver: MakeDriver) -> None:
        first = make_driver()
        net = make_network()
        tenant = net.tenant()
        self.bring(first, net, tenant)
        client, before = self.leased(tenant)
        server = self.server(net)
        self.environment.killed(first)
        successor = make_driver()
        assert self.renewed(client) == before
        outcome = successor.converge(Update(put=wanted(net, tenant), complete=True))
        assert outcome.ok, str(outcome)
        assert self.server(net) == server, "the server was changed, or started again"
        assert self.renewed(client) == before
        comer = net.tenant(30)
        self.bring(successor, comer)
        assert self.leased(comer)[1].ip == comer.ip

    @proves(DhcpDriver, 4)
    def test_closing_a_driver_leaves_its_clients_served(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        client, before = self.leased(tenant)
        driver.close()
        assert self.renewed(client) == before
        client.leave()
        assert client.lease() == before

    @proves(DhcpDriver, 4)
    def test_leases_live_on_when_the_server_has_to_be_started_again(
        self, driver: DhcpDriver
    ) -> None:
        """With one more subnet, a server may have to; its clients do not notice."""
        net = make_network()
        tenant, other = net.tenant(20), net.tenant(30)
        self.bring(driver, net, tenant, other)
        client, before = self.leased(tenant)
        booted = self.client(other)
        assert booted.boot() is not None
        added = evolve(a_subnet(), network_id=net.id)
        server = evolve(
            net.value.server,
            addresses=(*net.value.server.addresses, *make_network(added).value.server.addresses),
        )
        self.bring(driver, net.but(subnets=(*net.subnets, added), server=server))
        assert self.renewed(client).ip == before.ip
        again = booted.boot()
        assert again is not None
        assert again.ip == other.ip

    @proves(DhcpDriver, 4, 5)
    def test_a_server_that_dies_is_reported_and_restarted(self, driver: DhcpDriver) -> None:
        self.require(driver, HostCapability.WATCH)
        deaths = Deaths(driver)
        net = make_network()
        tenant, other = net.tenant(20), net.tenant(30)
        self.bring(driver, net, tenant, other)
        client, before = self.leased(tenant)
        booted = self.client(other)
        assert booted.boot() is not None
        former = self.server(net).processes
        self.environment.kill_server(net.id, net.value.server)
        assert deaths.wait_for(net.key, self.environment.timeout), "its death is not reported"
        self.bring(driver, net)
        self.await_server(net, lambda server: server.listens and server.processes != former)
        assert self.renewed(client) == before
        again = booted.boot()
        assert again is not None
        assert again.ip == other.ip

    @proves(DhcpDriver, 4, 5)
    def test_a_server_that_died_unseen_is_started_by_the_next_driver(
        self, make_driver: MakeDriver
    ) -> None:
        first = make_driver()
        self.require(first, HostCapability.WATCH)
        net = make_network()
        tenant = net.tenant()
        self.bring(first, net, tenant)
        client, before = self.leased(tenant)
        self.environment.killed(first)
        first.close()
        self.environment.kill_server(net.id, net.value.server)
        successor = make_driver()
        self.bring(successor, net, tenant)
        self.await_server(net, lambda server: server.listens)
        assert self.renewed(client) == before

    @proves(HostDriver, 6)
    @proves(DhcpDriver, 4)
    def test_a_host_that_was_started_again_serves_as_before(self, make_driver: MakeDriver) -> None:
        first = make_driver()
        net = make_network()
        tenant = net.tenant()
        self.bring(first, net, tenant)
        client, before = self.leased(tenant)
        self.environment.killed(first)
        self.environment.restart_host()
        successor = make_driver()
        self.admit(net)
        outcome = successor.converge(Update(put=wanted(net, tenant), complete=True))
        assert outcome.ok, str(outcome)
        assert self.renewed(client) == before
        self.assert_device(net, net.subnets[0].gateway)

    @proves(DhcpDriver, 6)
    def test_the_device_has_exactly_the_desired_addresses_and_routes(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network(a_subnet(), a_subnet(gateway=None))
        one, two = net.subnets
        self.bring(driver, net)
        self.assert_device(net, one.gateway)
        gateless = net.with_subnet(0, gateway=None)
        self.bring(driver, gateless)
        self.assert_device(gateless, None)
        other = gateless.with_subnet(1, gateway=two.cidr[1])
        self.bring(driver, other)
        self.assert_device(other, IPv4Address(two.cidr[1]))
        elsewhere = net.served_from(4).value.server.addresses
        moved = net.but(server=evolve(net.value.server, addresses=elsewhere))
        self.bring(driver, moved)
        self.assert_device(moved, one.gateway)
        self.bring(driver, net)
        self.assert_device(net, one.gateway)

    @proves(DhcpDriver, 6)
    def test_a_gateway_beyond_its_subnet_is_reached(self, driver: DhcpDriver) -> None:
        net = make_network(a_subnet(gateway="198.51.100.1"))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        self.assert_device(net, IPv4Address("198.51.100.1"))
        lease = self.leased(tenant)[1]
        assert lease.gateways == (IPv4Address("198.51.100.1"),)
        assert Route(destination="198.51.100.1/32", nexthop=ON_LINK) in lease.routes
        within = net.with_subnet(0, gateway=net.subnets[0].cidr[1])
        self.bring(driver, within)
        self.assert_device(within, within.subnets[0].gateway)

    @proves(DhcpDriver, 6)
    def test_the_device_is_at_the_reported_location(self, driver: DhcpDriver) -> None:
        net = make_network()
        place = driver.location(net.id, net.value.server)
        self.bring(driver, net)
        assert driver.location(net.id, net.value.server) == place
        if place is not None:
            assert self.environment.is_at(place, net.value.server)

    def assert_device(self, net: ServedNetwork, gateway: object) -> None:
        """Assert that the server's device matches *net*, with *gateway* in its default route."""
        server = self.server(net)
        assert server.addresses == set(net.value.server.addresses)
        assert server.gateways == ({gateway} if gateway is not None else set())
        assert (server.mac, server.mtu) == (net.value.server.mac, net.value.mtu)
