"""What the parts of distributed routers do beside forwarding."""

from __future__ import annotations

from ipaddress import ip_interface

import pytest
from attrs import evolve

from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.drivers.values.router_values import (
    FullRouter,
    HighAvailability,
    RouterPart,
    RouterState,
)
from netfw.model.router import HaRole
from netfw.model.subnet import Ipv6Mode
from netfw.plan import Update
from netfw.testing.conformance.router.distributed_factories import (
    DistributedSite,
    bring_entries,
    entries,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.factories import make_net
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    plan,
)

pytestmark = pytest.mark.services


@pytest.fixture
def site(environment: LinuxRouterEnvironment) -> DistributedSite:
    made = make_distributed()
    environment.admit(made.ports)
    return made


def advertising(site: DistributedSite) -> DistributedSite:
    """Return *site* with the IPv6 subnets of its networks advertised."""

    def advertised(port):
        modes = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
        subnets = (evolve(s, **modes) if s.ip_version == 6 else s for s in port.subnets)
        return evolve(port, subnets=tuple(subnets))

    local = evolve(site.local, interfaces=tuple(map(advertised, site.local.interfaces)))
    central = evolve(site.central, ports=tuple(map(advertised, site.central.ports)))
    return site.with_state(local=local, central=central)


@pytest.mark.spec("L3-64")
def test_interfaces_of_a_local_part_find_moved_addresses(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    bring_entries(make_driver(), entries(site))
    devices = environment.run(site.router, ["ls", "/proc/sys/net/ipv4/neigh"]).split()
    device = next(name for name in devices if name.startswith("qr-"))
    wanted = {
        f"net/ipv4/neigh/{device}/base_reachable_time_ms": "5000",
        f"net/ipv4/neigh/{device}/delay_first_probe_time": "1",
        f"net/ipv6/neigh/{device}/ucast_solicit": "0",
        f"net/ipv6/neigh/{device}/mcast_resolicit": "3",
        "net/ipv4/conf/all/arp_ignore": "1",
        "net/ipv4/conf/all/arp_announce": "2",
        f"net/ipv4/conf/{device}/rp_filter": "0",
        f"net/ipv4/conf/{device}/send_redirects": "0",
    }
    for name, value in wanted.items():
        assert environment.run(site.router, ["cat", f"/proc/sys/{name}"]).strip() == value, name


@pytest.mark.spec("L3-61")
def test_the_local_part_redirects_metadata_and_advertises(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    wanted = advertising(site)
    driver = make_driver()
    bring_entries(driver, entries(wanted))
    listening = RouterState(full=FullRouter(interfaces=site.local.interfaces))
    environment.listen_metadata(site.router, listening)
    net = site.nets[0]
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    target = ip_interface("169.254.169.254").ip
    assert wait_until(lambda: inside.metadata(target), seconds=60) == net.address(20)
    found = wait_until(inside.advertisement, seconds=60)
    assert found is not None
    radvds = [*(environment.router_confs / "radvd").glob("*.conf")]
    assert [path.name for path in radvds] == [f"{site.router}.conf"]
    assert not plan(make_driver(), Update(put=entries(wanted)))


@pytest.mark.spec("L3-65")
def test_a_central_part_is_elected(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    driver = make_driver()
    bring_entries(driver, {})  # its lock stays
    before = environment.dump_state()
    port = make_net(9).port()
    port = evolve(port, addresses=(ip_interface("169.254.192.1/18"),))
    environment.admit([port])
    ha = HighAvailability(port=port, vrid=7)
    wanted = entries(site.with_state(central=evolve(site.central, ha=ha)))
    bring_entries(driver, wanted)
    wait_until(lambda: driver.status(site.router).role is HaRole.ACTIVE, seconds=60)
    net, external = site.nets[0], site.external
    environment.machine(external.id, external.interfaces(1))
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    answer = wait_until(lambda: inside.reach(external.address(1)))
    assert answer.source == site.outside_address
    driver = make_driver()
    assert not plan(driver, Update(put=wanted))
    bring_entries(driver, wanted)
    assert driver.status(site.router).role is HaRole.ACTIVE
    bring_entries(driver, entries(site))  # not highly available any more
    assert driver.status(site.router).role is None
    wait_until(lambda: inside.reach(external.address(1)), seconds=60)
    environment.dismiss()
    assert driver.converge(Update(drop=frozenset({site.key}))).ok
    assert environment.dump_state() <= before


@pytest.mark.spec("L3-63")
def test_a_port_forwarding_belongs_to_the_central_part(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    net, external = site.nets[0], site.external
    floating = external.address(60)
    words = ("-d", f"{floating}/32", "-p", "tcp", "-m", "tcp", "--dport", "8080")
    to = ("-j", "DNAT", "--to-destination", f"{net.address(20)}:80")
    rule = RouterRule(table=RuleTable.NAT, chain=RuleChain.PREROUTING, words=(*words, *to))
    contribution = RouterContribution(
        owner="forwards", rules=(rule,), addresses=(ip_interface(floating),)
    )
    wanted = site.with_state(contributions=(contribution,))
    driver = make_driver()
    bring_entries(driver, entries(wanted))
    outside = environment.machine(external.id, external.interfaces(1))
    environment.machine(net.id, net.interfaces(20), net.gateways())
    wait_until(lambda: outside.reach(floating, "tcp", 8080), seconds=60)
    assert str(floating) not in environment.run(site.router, ["iptables-save"])


@pytest.mark.spec("L3-62", "L3-63")
def test_instances_reach_floating_ips_of_their_own_router(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    gateway = make_agent_gateway(site.external)
    environment.admit([gateway.value.port])
    one, two = site.nets
    first, second = site.floating(50, one.address(20)), site.floating(51, two.address(20))
    bring_entries(make_driver(), entries(site, gateways=[gateway], floating=[first, second]))
    with_one, with_two, without = (
        environment.machine(net.id, net.interfaces(number), net.gateways())
        for net, number in ((one, 20), (two, 20), (one, 30))
    )
    wait_until(lambda: with_one.reach(second.address), seconds=60)
    answer = wait_until(lambda: with_one.reach(second.address, "tcp", 80))
    assert answer.source == first.address
    wait_until(lambda: with_two.reach(first.address))
    wait_until(lambda: without.reach(first.address), seconds=60)
    answer = wait_until(lambda: without.reach(first.address, "tcp", 80))
    assert answer.source == site.outside_address
    answer = wait_until(lambda: with_one.reach(two.address(20), "tcp", 80))
    assert answer.source == one.address(20), "inside, nothing is translated"


@pytest.mark.spec("L3-61", "L3-63")
def test_a_plain_router_becomes_distributed_and_plain_again(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    plain = RouterState(
        full=FullRouter(interfaces=site.local.interfaces, gateway=site.central.gateway)
    )
    net, external = site.nets[0], site.external
    environment.machine(external.id, external.interfaces(1))
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    driver = make_driver()
    for state in (plain, site.state, plain):
        bring_entries(driver, {site.key: state})
        wait_until(lambda: inside.reach(external.address(1), "tcp", 80), seconds=60)
        assert not plan(driver, Update(put={site.key: state}))
    assert driver.status(site.router).namespaces.keys() == {RouterPart.FULL}
