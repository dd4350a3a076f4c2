"""Leases of real clients: `DhcpDriver` promise 1."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface

import pytest
from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.route import Route
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.dhcp.case import DhcpCase, MakeDriver
from netfw.testing.conformance.dhcp.factories import (
    MTU,
    a_subnet,
    a_subnet6,
    address_on,
    make_network,
)
from netfw.testing.lab.dhcp_lease import ClientLease

METADATA = "169.254.169.254/32"
ON_LINK = "0.0.0.0"
BOOT_FILE, TFTP, NTP, PRIVATE = 67, 66, 42, 224
CLIENT_ID, IPXE = 61, 175


class DhcpLeasesConformance(DhcpCase):
    """Addresses and options of leases."""

    @proves(DhcpDriver, 1)
    def test_a_port_gets_its_address_gateway_name_servers_mtu_and_domain(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        _, lease = self.leased(tenant)
        (subnet,) = net.subnets
        assert lease.address == IPv4Interface((tenant.ip, subnet.cidr.prefixlen))
        assert lease.server == address_on(subnet, net.value)
        assert lease.gateways == (subnet.gateway,)
        assert lease.dns == subnet.dns_nameservers
        assert lease.mtu == MTU
        assert lease.domain == "example.org"
        assert lease.seconds >= 120

    @proves(DhcpDriver, 1)
    def test_another_kind_of_client_receives_the_same(self, driver: DhcpDriver) -> None:
        net = make_network(a_subnet(host_routes=(_route(a_subnet(), "10.0.0.1"),)))
        tenant = net.tenant(hostname="other")
        self.bring(driver, net, tenant)
        client, lease = self.leased(tenant)
        client.leave()
        other = client.boot()
        assert other is not None
        assert evolve(other, options={}) == evolve(lease, options={})

    @proves(DhcpDriver, 1, 4)
    def test_a_port_is_known_by_its_mac_whatever_its_client_calls_itself(
        self, driver: DhcpDriver
    ) -> None:
        """Firmware, installer and operating system of one instance have ids of their own."""
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        client, before = self.leased(tenant)
        for name in (b"\xff\0\0\0\1\0\3\0\1", b"\0firmware"):
            lease = client.lease(sent_options={CLIENT_ID: name})
            assert lease is not None
            assert _without_client_id(lease) == _without_client_id(before)
        client.leave()
        assert client.lease() == before

    @proves(DhcpDriver, 1)
    def test_every_port_gets_its_own_address_and_unknown_clients_get_none(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network()
        tenants = [net.tenant(place) for place in (20, 30, 40)]
        self.bring(driver, net, *tenants)
        unknown = net.tenant(50)
        self.assert_nothing_for(unknown)
        for tenant in tenants:
            assert self.leased(tenant)[1].ip == tenant.ip

    @proves(DhcpDriver, 1)
    def test_networks_with_equal_addresses_do_not_mix(self, driver: DhcpDriver) -> None:
        block = a_subnet()
        one, two = (
            make_network(block, mtu=1400),
            make_network(evolve(block, gateway=None), mtu=1300),
        )
        here = one.tenant(20)
        there = two.tenant(30, mac=here.mac)
        self.bring(driver, one, two, here, there)
        assert self.leased(here)[1].mtu == 1400
        _, lease = self.leased(there)
        assert lease.ip == there.ip
        assert lease.mtu == 1300
        self.assert_nothing_for(two.tenant(20))

    @proves(DhcpDriver, 1)
    def test_without_a_gateway_none_is_sent(self, driver: DhcpDriver) -> None:
        net = make_network(a_subnet(gateway=None))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        _, lease = self.leased(tenant)
        assert lease.gateways == ()
        assert not any(route.destination.prefixlen == 0 for route in lease.routes)

    @proves(DhcpDriver, 1)
    def test_without_name_servers_the_dhcp_servers_are_named(self, driver: DhcpDriver) -> None:
        subnet = a_subnet(dns_nameservers=())
        net = make_network(subnet, peers=(IPv4Interface((subnet.cidr[3], 24)),))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        _, lease = self.leased(tenant)
        own, peer = address_on(net.subnets[0], net.value), subnet.cidr[3]
        assert peer in lease.dns
        assert set(lease.dns) <= {own, peer}

    @proves(DhcpDriver, 1)
    def test_routes_of_a_subnet_are_sent_with_the_default_route(self, driver: DhcpDriver) -> None:
        """Check the default route: a client that receives routes ignores the gateway (RFC 3442)."""
        subnet = a_subnet()
        far = _route(a_subnet(), str(subnet.cidr[7]))
        net = make_network(evolve(subnet, host_routes=(far,)))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        _, lease = self.leased(tenant)
        default = Route(destination="0.0.0.0/0", nexthop=str(subnet.gateway))
        assert lease.routes >= {far, default}
        assert lease.microsoft_routes in (lease.routes, frozenset())

    @proves(DhcpDriver, 1)
    def test_other_subnets_of_the_network_are_reached_without_the_gateway(
        self, driver: DhcpDriver
    ) -> None:
        """Check subnets with DHCP and without."""
        net = make_network(a_subnet(), a_subnet(), a_subnet(enable_dhcp=False))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        _, lease = self.leased(tenant)
        here, *others = net.subnets
        beside = {Route(destination=other.cidr, nexthop=ON_LINK) for other in others}
        default = Route(destination="0.0.0.0/0", nexthop=str(here.gateway))
        assert lease.routes == {*beside, default}

    @proves(DhcpDriver, 1, 6)
    def test_metadata_is_reached_through_the_server_where_configured(
        self, driver: DhcpDriver
    ) -> None:
        isolated, plain = a_subnet(gateway=None), a_subnet()
        net = make_network(isolated, plain, metadata_for=frozenset({isolated.id}))
        one, two = net.tenant(on=(0,)), net.tenant(on=(1,))
        self.bring(driver, net, one, two)
        own = address_on(net.subnets[0], net.value)
        way = Route(destination=METADATA, nexthop=str(own))
        assert way in self.leased(one)[1].routes
        assert not any(r.destination == way.destination for r in self.leased(two)[1].routes)
        addresses = {address for address in self.server(net).addresses if address.version == 4}
        assert addresses == {*net.value.server.addresses, IPv4Interface(METADATA)}

    @proves(DhcpDriver, 1)
    def test_names_are_sent(self, driver: DhcpDriver) -> None:
        net = make_network()
        named = net.tenant(20, hostname="web1", domain="other.example")
        plain, nameless = net.tenant(30, hostname="web2"), net.tenant(40)
        self.bring(driver, net, named, plain, nameless)
        lease = self.leased(named)[1]
        assert (lease.hostname.partition(".")[0], lease.domain) == ("web1", "other.example")
        lease = self.leased(plain)[1]
        assert (lease.hostname.partition(".")[0], lease.domain) == ("web2", "example.org")
        assert str(nameless.ip).replace(".", "-") in self.leased(nameless)[1].hostname

    @proves(DhcpDriver, 1)
    def test_options_are_sent_by_name_and_by_number_and_those_of_the_port_win(
        self, driver: DhcpDriver
    ) -> None:
        common = (
            DhcpOption(name="bootfile-name", value="common.img"),
            DhcpOption(name="ntp-server", value="192.0.2.7"),
            DhcpOption(name=str(PRIVATE), value="for-all"),
        )
        own = (
            DhcpOption(name="bootfile-name", value="own.img"),
            DhcpOption(name=str(PRIVATE), value="for-one"),
            DhcpOption(name="tftp-server", value="192.0.2.9"),
        )
        net = make_network(options=common)
        special, plain = net.tenant(20, options=own), net.tenant(30)
        self.bring(driver, net, special, plain)
        ntp = IPv4Address("192.0.2.7").packed
        requested = (BOOT_FILE, TFTP, NTP, PRIVATE)
        got = self.client(special).lease(requested)
        assert got is not None
        assert {n: got.options.get(n) for n in requested} == {
            BOOT_FILE: b"own.img", TFTP: b"192.0.2.9", NTP: ntp, PRIVATE: b"for-one",
        }  # fmt: skip
        got = self.client(plain).lease(requested)
        assert got is not None
        assert {n: got.options.get(n) for n in requested} == {
            BOOT_FILE: b"common.img", TFTP: None, NTP: ntp, PRIVATE: b"for-all",
        }  # fmt: skip

    @proves(DhcpDriver, 1)
    def test_options_of_a_port_win_over_its_subnet(self, driver: DhcpDriver) -> None:
        net = make_network()
        own = (
            DhcpOption(name="mtu", value="1300"),
            DhcpOption(name="dns-server", value="192.0.2.1,192.0.2.2"),
        )
        special, plain = net.tenant(20, options=own), net.tenant(30)
        self.bring(driver, net, special, plain)
        lease = self.leased(special)[1]
        assert lease.mtu == 1300
        assert lease.dns == (IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2"))
        assert lease.gateways == (net.subnets[0].gateway,)
        lease = self.leased(plain)[1]
        assert (lease.mtu, lease.dns) == (MTU, net.subnets[0].dns_nameservers)

    @proves(DhcpDriver, 1)
    def test_an_option_without_a_value_is_not_sent(self, driver: DhcpDriver) -> None:
        net = make_network(options=(DhcpOption(name="bootfile-name", value="common.img"),))
        names = ("bootfile-name", "router", "dns-server")
        empty = tuple(DhcpOption(name=name, value="") for name in names)
        special, plain = net.tenant(20, options=empty), net.tenant(30)
        self.bring(driver, net, special, plain)
        _, lease = self.leased(special)
        assert (lease.options.get(BOOT_FILE), lease.gateways, lease.dns) == (None, (), ())
        _, lease = self.leased(plain)
        (subnet,) = net.subnets
        assert lease.options.get(BOOT_FILE) == b"common.img"
        assert (lease.gateways, lease.dns) == ((subnet.gateway,), subnet.dns_nameservers)

    @proves(DhcpDriver, 1)
    def test_an_option_is_one_by_its_name_and_by_its_number(self, driver: DhcpDriver) -> None:
        net = make_network(
            options=(
                DhcpOption(name="bootfile-name", value="common.img"),
                DhcpOption(name=str(NTP), value="192.0.2.7"),
            )
        )
        own = (
            DhcpOption(name=str(BOOT_FILE), value="own.img"),
            DhcpOption(name="ntp-server", value="192.0.2.8"),
        )
        tenant = net.tenant(options=own)
        self.bring(driver, net, tenant)
        _, lease = self.leased(tenant)
        assert lease.options.get(BOOT_FILE) == b"own.img"
        assert lease.options.get(NTP) == IPv4Address("192.0.2.8").packed

    @proves(DhcpDriver, 1)
    def test_a_subnet_whose_name_server_is_zero_has_none(self, driver: DhcpDriver) -> None:
        net = make_network(a_subnet(dns_nameservers=("0.0.0.0",)))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        assert self.leased(tenant)[1].dns == ()

    @proves(DhcpDriver, 1)
    def test_a_client_that_boots_by_ipxe_receives_the_ipxe_options(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network()
        own = (
            DhcpOption(name="tag:ipxe,bootfile-name", value="http://boot/script"),
            DhcpOption(name="tag:!ipxe,bootfile-name", value="loader.bin"),
        )
        tenant = net.tenant(options=own)
        self.bring(driver, net, tenant)
        client = self.client(tenant)
        first = client.lease()
        assert first is not None
        assert first.options.get(BOOT_FILE) == b"loader.bin"
        then = client.lease(sent_options={IPXE: b"\1"})
        assert then is not None
        assert then.options.get(BOOT_FILE) == b"http://boot/script"

    @proves(DhcpDriver, 1)
    def test_several_subnets_are_distinguished_and_one_without_dhcp_gives_nothing(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network(a_subnet(), a_subnet(), a_subnet(enable_dhcp=False))
        tenants = [net.tenant(20, on=(at,)) for at in range(3)]
        self.bring(driver, net, *tenants)
        self.assert_nothing_for(tenants[2])
        for tenant, subnet in zip(tenants[:2], net.subnets, strict=False):
            _, lease = self.leased(tenant)
            assert lease.ip == tenant.ip
            assert lease.gateways == (subnet.gateway,)
            assert lease.dns == subnet.dns_nameservers

    @proves(DhcpDriver, 1)
    def test_a_port_with_several_addresses_gets_one_of_them(self, driver: DhcpDriver) -> None:
        net = make_network(a_subnet(), a_subnet())
        both, twice = net.tenant(20, on=(0, 1)), net.tenant(30)
        more = FixedIp(subnet_id=net.subnets[0].id, address=net.subnets[0].cidr[31])
        twice = twice.but(fixed_ips=(*twice.value.fixed_ips, more))
        self.bring(driver, net, both, twice)
        for tenant in (both, twice):
            _, lease = self.leased(tenant)
            assert lease.ip in tenant.addresses

    @proves(DhcpDriver, 1)
    def test_a_port_without_addresses_gets_nothing_and_disturbs_no_other(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network()
        bare, plain = net.tenant(fixed_ips=()), net.tenant()
        self.bring(driver, net, bare, plain)
        self.assert_nothing_for(bare)
        self.leased(plain)

    @proves(DhcpDriver, 9)
    @pytest.mark.parametrize("mode", list(Ipv6Mode))
    def test_ipv6_beside_does_no_harm(self, driver: DhcpDriver, mode: Ipv6Mode) -> None:
        net = make_network(a_subnet6(mode), a_subnet())
        options = (
            DhcpOption(name="dns-server", value="fd00::53", ip_version=6),
            DhcpOption(name="bootfile-name", value="own.img"),
        )
        special, plain = net.tenant(20, on=(0, 1), options=options), net.tenant(30, on=(1, 0))
        self.bring(driver, net, special, plain)
        lease = self.client(special).lease((BOOT_FILE,))
        assert lease is not None
        assert (lease.ip, lease.options.get(BOOT_FILE)) == (special.ip, b"own.img")
        assert lease.dns == net.subnets[1].dns_nameservers
        assert self.leased(plain)[1].ip == plain.ip

    @proves(DhcpDriver, 1)
    def test_two_servers_of_one_network_agree(self, make_driver: MakeDriver) -> None:
        """Check that a client receives the same answer from either of two hosts."""
        first, second = make_driver(), make_driver(second=True)
        one = make_network()
        two = one.served_from(3)
        tenant = one.tenant()
        self.bring(first, one, tenant)
        client, lease = self.leased(tenant)
        self.bring(second, two, tenant)
        self.renewed(client)
        client.leave()
        assert self.leased(tenant)[1].ip == tenant.ip
        self.drop(first, one, tenant)
        client.leave()
        _, other = self.leased(tenant)
        assert other.server == address_on(two.subnets[0], two.value)
        assert evolve(other, server=lease.server) == lease

    @proves(DhcpDriver, 4)
    def test_a_lease_of_one_server_is_not_refused_by_the_next(
        self, make_driver: MakeDriver
    ) -> None:
        """Move the network to another host while its instances run."""
        first, second = make_driver(), make_driver(second=True)
        one = make_network()
        two = one.served_from(3)
        tenant = one.tenant()
        self.bring(first, one, tenant)
        client = self.client(tenant)
        before = client.boot()
        assert before is not None
        self.drop(first, one, tenant)
        self.bring(second, two, tenant)
        after = client.boot()
        assert after is not None
        assert after.ip == before.ip == tenant.ip


def _without_client_id(lease: ClientLease) -> ClientLease:
    """Return *lease* without the name of the client, which some servers return (RFC 6842)."""
    options = {number: value for number, value in lease.options.items() if number != CLIENT_ID}
    return evolve(lease, options=options)


def _route(to: Subnet, nexthop: str) -> Route:
    return Route(destination=to.cidr, nexthop=nexthop)
