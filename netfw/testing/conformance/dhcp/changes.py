"""Changes of networks and ports under running clients: `DhcpDriver` promises 1 to 3 and 7."""

from __future__ import annotations

import threading
from ipaddress import IPv4Address

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver, DhcpKey
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.route import Route
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.dhcp.case import DhcpCase
from netfw.testing.conformance.dhcp.factories import Tenant, a_subnet, make_network, new_mac, wanted
from netfw.testing.conformance.dhcp.leases import PRIVATE

FEW, MANY = 10, 150
MANY = 30
MAX_CALLS = 500_000


class DhcpChangesConformance(DhcpCase):
    """A change is in force when ``converge`` returns, and interrupts no other client."""

    @proves(DhcpDriver, 1)
    def test_a_changed_network_is_sent_with_the_next_renewal(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        client, before = self.leased(tenant)
        block = net.subnets[0].cidr
        far = Route(destination=a_subnet().cidr, nexthop=str(block[7]))
        changed = net.with_subnet(
            0, dns_nameservers=("192.0.2.53",), gateway=block[9], host_routes=(far,)
        ).but(mtu=1380, dns_domain="new.example")
        self.bring(driver, changed)
        lease = self.renewed(client)
        assert lease.ip == before.ip
        assert lease.dns == (IPv4Address("192.0.2.53"),)
        assert lease.gateways == (block[9],)
        assert lease.mtu == 1380
        assert far in lease.routes
        assert lease.domain == "new.example"

    @proves(DhcpDriver, 1)
    def test_a_subnet_can_come_and_go(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        client, before = self.leased(tenant)
        more = make_network(*net.subnets, a_subnet())
        larger = net.but(
            subnets=tuple(evolve(subnet, network_id=net.id) for subnet in more.subnets),
            server=evolve(net.value.server, addresses=more.value.server.addresses),
        )
        other = larger.tenant(20, on=(1,))
        self.bring(driver, larger, other)
        assert self.leased(other)[1].ip == other.ip
        assert self.renewed(client).ip == before.ip
        self.drop(driver, other)
        self.bring(driver, net)
        assert self.renewed(client) == before
        self.assert_nothing_for(other)

    @proves(DhcpDriver, 1)
    def test_changed_options_of_a_port_are_sent_with_the_next_renewal(
        self, driver: DhcpDriver
    ) -> None:
        net = make_network(options=(DhcpOption(name=str(PRIVATE), value="for-all"),))
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        client = self.client(tenant)
        assert client.lease((PRIVATE,)) is not None
        for value in ("first", "second"):
            own = (DhcpOption(name=str(PRIVATE), value=value),)
            self.bring(driver, tenant.but(options=own))
            assert self.renewed(client).options.get(PRIVATE) == value.encode()
        self.bring(driver, tenant)
        assert self.renewed(client).options.get(PRIVATE) == b"for-all"

    @proves(DhcpDriver, 1, 3)
    def test_a_port_gets_another_address_and_its_old_one_is_free(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant(20)
        self.bring(driver, net, tenant)
        self.leased(tenant)
        moved = tenant.but(fixed_ips=net.tenant(30).value.fixed_ips)
        successor = net.tenant(20)
        self.bring(driver, moved, successor)
        assert self.leased(moved)[1].ip == moved.ip
        assert self.leased(successor)[1].ip == successor.ip

    @proves(DhcpDriver, 1, 3)
    def test_a_port_with_another_mac_is_known_by_that_alone(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        self.leased(tenant)
        moved = tenant.but(mac=new_mac())
        self.bring(driver, moved)
        self.assert_nothing_for(tenant)
        assert self.leased(moved)[1].ip == tenant.ip

    @proves(DhcpDriver, 1)
    def test_two_ports_swap_their_addresses(self, driver: DhcpDriver) -> None:
        net = make_network()
        one, two = net.tenant(20), net.tenant(30)
        self.bring(driver, net, one, two)
        self.leased(one)
        self.leased(two)
        swapped = (
            one.but(fixed_ips=two.value.fixed_ips),
            two.but(fixed_ips=one.value.fixed_ips),
        )
        self.bring(driver, *swapped)
        for tenant in swapped:
            assert self.leased(tenant)[1].ip == tenant.ip

    @proves(DhcpDriver, 3)
    def test_the_address_of_a_dropped_port_is_free_at_once(self, driver: DhcpDriver) -> None:
        """Check that the driver releases the lease of an instance that ended without a release."""
        net = make_network()
        tenant, successor = net.tenant(20), net.tenant(20)
        self.bring(driver, net, tenant)
        client, _ = self.leased(tenant)
        client.leave()
        self.drop(driver, tenant)
        self.assert_nothing_for(tenant)
        self.bring(driver, successor)
        assert self.leased(successor)[1].ip == successor.ip

    @proves(DhcpDriver, 3)
    def test_an_address_moves_from_port_to_port_in_one_update(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant, successor = net.tenant(20), net.tenant(20)
        self.bring(driver, net, tenant)
        self.leased(tenant)
        outcome = driver.converge(Update(put=wanted(successor), drop=frozenset({tenant.key})))
        assert outcome.ok, str(outcome)
        assert self.leased(successor)[1].ip == successor.ip
        self.assert_nothing_for(tenant)

    @proves(DhcpDriver, 1, 3)
    def test_what_a_client_gave_back_it_can_have_again(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        client, before = self.leased(tenant)
        client.release()
        assert client.lease() == before

    @proves(DhcpDriver, 2)
    def test_ports_come_and_go_without_interrupting_others(self, driver: DhcpDriver) -> None:
        net = make_network()
        resident = net.tenant(20)
        self.bring(driver, net, resident)
        client, before = self.leased(resident)
        server = self.server(net)
        for place in (30, 31):
            comer = net.tenant(place)
            self.bring(driver, comer)
            assert self.leased(comer)[1].ip == comer.ip
            self.bring(driver, comer.but(hostname="called-otherwise"))
            self.drop(driver, comer)
        assert self.server(net) == server, "the server was changed, or started again"
        assert self.renewed(client) == before

    @proves(DhcpDriver, 2)
    def test_one_port_more_costs_the_same_among_few_and_many(self, driver: DhcpDriver) -> None:
        net = make_network(a_subnet())
        few = [net.tenant(10 + n) for n in range(FEW)]
        self.bring(driver, net, *few)
        among_few = [self.cost(driver, net.tenant(201)), self.cost(driver, net.tenant(202))]
        many = [net.tenant(10 + FEW + n) for n in range(MANY)]
        self.bring(driver, *many)
        among_many = [self.cost(driver, net.tenant(203)), self.cost(driver, net.tenant(204))]
        assert min(among_many) < 1.5 * max(among_few), f"{among_few} calls, then {among_many}"

    def cost(self, driver: DhcpDriver, tenant: Tenant) -> int:
        """Count the function calls that put a port, change it and drop it again."""

        def work() -> None:
            self.bring(driver, tenant)
            self.bring(driver, tenant.but(hostname="changed"))
            self.drop(driver, tenant)

        return count_calls(work, MAX_CALLS)

    @proves(DhcpDriver, 1)
    def test_many_ports_come_at_once(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenants = [net.tenant(10 + n) for n in range(MANY)]
        self.bring(driver, net, *tenants)
        assert driver.present() == {net.key, *(tenant.key for tenant in tenants)}
        for tenant in tenants:
            client, lease = self.leased(tenant)
            assert lease.ip == tenant.ip
            client.leave()
            self.environment.dismiss()

    @proves(DhcpDriver, 1)
    def test_a_port_waits_for_its_network(self, driver: DhcpDriver) -> None:
        net, other = make_network(), make_network()
        tenant, served = net.tenant(), other.tenant()
        self.admit(net, other)
        outcome = driver.converge(Update(put=wanted(other, tenant, served)))
        assert outcome.waiting.keys() == {tenant.key}, str(outcome)
        assert outcome.done == {other.key, served.key}
        self.leased(served)
        self.bring(driver, net, tenant)
        self.leased(tenant)

    @proves(DhcpDriver, 1)
    def test_ports_wait_again_for_a_network_that_was_dropped(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        self.leased(tenant)
        self.drop(driver, net)
        self.assert_nothing_for(tenant)
        assert not self.traces(net)
        outcome = driver.converge(Update(put=wanted(tenant)))
        assert outcome.waiting.keys() == {tenant.key}, str(outcome)
        self.bring(driver, net, tenant)
        self.leased(tenant)

    @proves(DhcpDriver, 7)
    def test_a_dropped_network_leaves_nothing(self, driver: DhcpDriver) -> None:
        before = self.environment.dump_state()
        net, other = make_network(), make_network()
        tenant = net.tenant()
        self.bring(driver, other, net, tenant)
        self.leased(tenant)
        assert self.traces(net)
        self.drop(driver, net, tenant)
        assert not self.traces(net)
        assert self.traces(other)
        self.drop(driver, other)
        self.environment.dismiss()
        assert self.environment.dump_state() - before == frozenset()

    @proves(DhcpDriver, 7)
    def test_the_next_driver_drops_what_the_former_one_made(self, driver: DhcpDriver) -> None:
        net = make_network()
        tenant = net.tenant()
        self.bring(driver, net, tenant)
        self.leased(tenant)
        self.environment.killed(driver)
        successor = self.environment.make_driver()
        assert successor.present() == {net.key, tenant.key}
        self.drop(successor, net, tenant)
        successor.close()
        assert not self.traces(net)

    @proves(DhcpDriver, 1)
    def test_garbage_goes_and_what_is_kept_is_served_on(self, driver: DhcpDriver) -> None:
        net, other = make_network(), make_network()
        kept, gone, with_it = net.tenant(20), net.tenant(30), other.tenant()
        self.bring(driver, net, other, kept, gone, with_it)
        client, before = self.leased(kept)
        outcome = driver.gc([net.key, kept.key])
        assert outcome.ok, str(outcome)
        assert driver.present() == {net.key, kept.key}
        assert not self.traces(other)
        self.assert_nothing_for(gone)
        assert self.renewed(client) == before

    @proves(DhcpDriver, 1)
    def test_different_networks_are_converged_at_once(self, driver: DhcpDriver) -> None:
        nets = [make_network() for _ in range(4)]
        tenants = [net.tenant() for net in nets]
        self.admit(*nets)
        outcomes: list[Outcome[DhcpKey]] = []

        def work(at: int) -> None:
            steps = ((nets[at],), (tenants[at],), (nets[at].but(mtu=1300), tenants[at]))
            outcomes.extend(driver.converge(Update(put=wanted(*things))) for things in steps)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(len(nets))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(outcome) for outcome in outcomes if not outcome.ok] == []
        assert len(outcomes) == 3 * len(nets)
        for tenant in tenants:
            assert self.leased(tenant)[1].mtu == 1300
