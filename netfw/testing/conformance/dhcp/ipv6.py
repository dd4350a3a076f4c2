"""IPv6 with real clients, for drivers that declare ``DhcpCapability.DHCPV6``."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest

from netfw.drivers.dhcp import DhcpCapability, DhcpDriver
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.dhcp_option import DhcpOption
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.dhcp.case import DhcpCase, MakeDriver
from netfw.testing.conformance.dhcp.factories import MTU, Tenant, a_subnet, a_subnet6, make_network
from netfw.testing.lab.dhcp_lease import Announcement, Lease6

BOOT_FILE_URL = 59


class DhcpIpv6Conformance(DhcpCase):
    """IPv6 modes: the origin of addresses and of other options."""

    @proves(DhcpDriver, 1, 9)
    def test_with_stateful_dhcpv6_a_port_gets_its_address_and_the_rest(
        self, driver: DhcpDriver
    ) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.STATEFUL))
        tenants = [net.tenant(20), net.tenant(30)]
        self.bring(driver, net, *tenants)
        announcement = self.announced(tenants[0])
        (subnet,) = net.subnets
        assert (announcement.managed, announcement.mtu) == (True, MTU)
        assert announcement.prefixes.get(IPv6Network(subnet.cidr)) is not True
        for tenant in tenants:
            lease = self.leased6(tenant)
            assert lease.addresses == (tenant.ip6,)
            assert lease.dns == subnet.dns_nameservers
            assert lease.search == ("example.org",)

    @proves(DhcpDriver, 1, 9)
    def test_an_unknown_client_gets_no_ipv6_address(self, driver: DhcpDriver) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.STATEFUL))
        tenant, unknown = net.tenant(20), net.tenant(30)
        self.bring(driver, net, tenant)
        assert self.client(unknown).lease6(expected=False) is None
        assert self.leased6(tenant).addresses == (tenant.ip6,)

    @proves(DhcpDriver, 1, 9)
    def test_with_stateless_dhcpv6_a_port_makes_its_address_and_receives_the_rest(
        self, driver: DhcpDriver
    ) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.STATELESS))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        announcement = self.announced(tenant)
        (subnet,) = net.subnets
        assert (announcement.managed, announcement.other) == (False, True)
        assert announcement.prefixes == {subnet.cidr: True}
        assert tenant.ip6 in self.client(tenant).made_addresses(tenant.ip6)
        rest = self.client(tenant).lease6(stateless=True)
        assert rest is not None
        assert (rest.addresses, rest.dns, rest.search) == (
            (), subnet.dns_nameservers, ("example.org",),
        )  # fmt: skip

    @proves(DhcpDriver, 1, 9)
    def test_with_slaac_alone_a_port_makes_its_address(self, driver: DhcpDriver) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.SLAAC))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        announcement = self.announced(tenant)
        (subnet,) = net.subnets
        assert (announcement.managed, announcement.mtu) == (False, MTU)
        assert announcement.prefixes == {subnet.cidr: True}
        assert tenant.ip6 in self.client(tenant).made_addresses(tenant.ip6)

    @proves(DhcpDriver, 1, 9)
    def test_an_external_router_is_the_only_one_to_advertise(self, driver: DhcpDriver) -> None:
        """Without ``ipv6_ra_mode`` an external router does."""
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.STATEFUL, ipv6_ra_mode=None))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        assert self.leased6(tenant).addresses == (tenant.ip6,)
        assert self.client(tenant).announcement(expected=False) is None

    @proves(DhcpDriver, 1, 9)
    @pytest.mark.parametrize("mode", [Ipv6Mode.STATEFUL, Ipv6Mode.STATELESS])
    def test_ipv6_options_are_sent_and_those_of_the_port_win(
        self, driver: DhcpDriver, mode: Ipv6Mode
    ) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        common = DhcpOption(name="bootfile-url", value="http://common/", ip_version=6)
        own = (
            DhcpOption(name="bootfile-url", value="http://own/", ip_version=6),
            DhcpOption(name="23", value="fd00::53", ip_version=6),
        )
        net = make_network(a_subnet6(mode), options=(common,))
        special, plain = net.tenant(20, options=own), net.tenant(30)
        self.bring(driver, net, special, plain)
        stateless = mode is Ipv6Mode.STATELESS
        got = self.leased6(special, stateless=stateless)
        assert got.options.get(BOOT_FILE_URL) == b"http://own/"
        assert got.dns == (IPv6Address("fd00::53"),)
        got = self.leased6(plain, stateless=stateless)
        assert got.options.get(BOOT_FILE_URL) == b"http://common/"
        assert got.dns == net.subnets[0].dns_nameservers

    @proves(DhcpDriver, 1, 9)
    @pytest.mark.parametrize("mode", [Ipv6Mode.STATEFUL, Ipv6Mode.STATELESS])
    def test_a_port_gets_both_families(self, driver: DhcpDriver, mode: Ipv6Mode) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet(), a_subnet6(mode))
        own = (DhcpOption(name="bootfile-url", value="http://own/", ip_version=6),)
        tenant = net.tenant(20, on=(0, 1), options=own)
        self.bring(driver, net, tenant)
        assert self.leased(tenant)[1].ip == tenant.ip
        stateless = mode is Ipv6Mode.STATELESS
        lease = self.leased6(tenant, stateless=stateless)
        assert lease.addresses == (() if stateless else (tenant.ip6,))
        assert lease.options.get(BOOT_FILE_URL) == b"http://own/"

    @proves(DhcpDriver, 3, 9)
    def test_an_ipv6_address_is_free_at_once(self, driver: DhcpDriver) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.STATEFUL))
        tenant, successor = net.tenant(20), net.tenant(20)
        self.bring(driver, net, tenant)
        self.leased6(tenant)
        client = self.client(tenant)
        client.release6()
        assert self.leased6(tenant).addresses == (tenant.ip6,)
        client.leave()
        self.drop(driver, tenant)
        self.bring(driver, successor)
        assert self.leased6(successor).addresses == (successor.ip6,)

    @proves(DhcpDriver, 4, 9)
    def test_an_ipv6_lease_lives_on(self, make_driver: MakeDriver) -> None:
        first = make_driver()
        self.require(first, DhcpCapability.DHCPV6)
        net = make_network(a_subnet6(Ipv6Mode.STATEFUL))
        tenant = net.tenant()
        self.bring(first, net, tenant)
        before = self.leased6(tenant)
        self.environment.killed(first)
        successor = make_driver()
        self.bring(successor, net, tenant)
        assert self.client(tenant).renew6() == before
        former = self.server(net).processes
        self.environment.kill_server(net.id, net.value.server)
        self.bring(successor, net, tenant)
        self.await_server(net, lambda server: server.listens and server.processes != former)
        assert self.client(tenant).renew6() == before

    @proves(DhcpDriver, 6, 9)
    def test_the_device_has_addresses_and_routes_of_both_families(self, driver: DhcpDriver) -> None:
        self.require(driver, DhcpCapability.DHCPV6)
        net = make_network(a_subnet(), a_subnet6(Ipv6Mode.STATEFUL))
        self.bring(driver, net)
        server = self.server(net)
        assert server.addresses == set(net.value.server.addresses)
        assert server.gateways == {subnet.gateway for subnet in net.subnets}

    def announced(self, tenant: Tenant) -> Announcement:
        """Return the router advertisement that the instance of a port receives."""
        announcement = self.client(tenant).announcement()
        assert announcement is not None, "there is no router advertisement with the prefix"
        return announcement

    def leased6(self, tenant: Tenant, *, stateless: bool = False) -> Lease6:
        """Return the DHCPv6 lease of the instance of a port."""
        lease = self.client(tenant).lease6(stateless=stateless)
        assert lease is not None, f"{tenant.mac} got nothing by DHCPv6"
        return lease
