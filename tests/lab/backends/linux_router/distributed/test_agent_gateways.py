"""Agent gateways, and the floating IPs of local parts that use them."""

from __future__ import annotations

import json
import subprocess
import threading
from ipaddress import ip_network

import pytest
from attrs import evolve

from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.router_values import RouterPart
from netfw.model.values.ids import NetworkId
from netfw.plan import Update
from netfw.testing.conformance.router.distributed_factories import (
    AgentGatewaySite,
    DistributedSite,
    bring_entries,
    entries,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.factories import RoutedNetwork, make_net, next_mac
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, MakeDriver, plan

pytestmark = pytest.mark.services


@pytest.fixture
def site(environment: LinuxRouterEnvironment) -> DistributedSite:
    """Return a router whose central part is on another host."""
    made = make_distributed()
    environment.admit(made.ports)
    return made.with_state(central=None)


@pytest.fixture
def gateway(environment: LinuxRouterEnvironment, site: DistributedSite) -> AgentGatewaySite:
    made = make_agent_gateway(site.external)
    environment.admit([made.value.port])
    return made


def in_gateway(network: NetworkId, *words: str) -> str:
    """Run a command in the namespace of an agent gateway, and return its output."""
    command = ["ip", "netns", "exec", f"fip-{network}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pairs(network: NetworkId) -> list[str]:
    """Return the addresses of the gateway's ends of links."""
    shown = json.loads(in_gateway(network, "ip", "-j", "-4", "address"))
    return sorted(
        address["local"]
        for link in shown
        if link["ifname"].startswith("fpr-")
        for address in link["addr_info"]
    )


@pytest.mark.spec("L3-62")
def test_a_floating_ip_works_without_the_central_part(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
) -> None:
    net, external = site.nets[0], site.external
    floating = site.floating(50, net.address(20))
    wanted = entries(site, gateways=[gateway], floating=[floating])
    driver = make_driver()
    bring_entries(driver, wanted)
    assert driver.present() == wanted.keys()
    outside = environment.machine(external.id, external.interfaces(1))
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    wait_until(lambda: outside.reach(floating.address), seconds=60)
    answer = wait_until(lambda: inside.reach(external.address(1), "tcp", 80))
    assert answer.source == floating.address
    assert outside.reach(external.address(51)) is None  # it answers for floating IPs alone
    driver = make_driver()  # nothing announces now
    assert isinstance(outside, LabMachine)
    outside.instance.run(["ip", "neighbour", "flush", "all"])
    wait_until(lambda: outside.reach(floating.address), seconds=60)
    assert not plan(driver, Update(put=wanted, complete=True))
    assert driver.converge(Update(put=wanted, complete=True)).ok


@pytest.mark.spec("L3-62", "L3-69")
def test_everything_of_a_floating_ip_is_removed_with_it(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
) -> None:
    driver = make_driver()
    bring_entries(driver, {})  # its lock stays
    before = environment.dump_state()
    bring_entries(driver, entries(site))
    bare = environment.dump_state()
    net, external = site.nets[0], site.external
    first, second = (site.floating(n, net.address(n - 30)) for n in (50, 51))
    bring_entries(driver, entries(site, gateways=[gateway], floating=[first, second]))
    outside = environment.machine(external.id, external.interfaces(1))
    for number in (20, 21):
        environment.machine(net.id, net.interfaces(number), net.gateways())
    for each in (first, second):
        wait_until(lambda each=each: outside.reach(each.address), seconds=60)
    streams = [
        wait_until(lambda each=each: outside.connect(each.address, 80)) for each in (first, second)
    ]
    for stream, each in zip(streams, (first, second), strict=True):
        assert driver.converge(Update(drop=frozenset({each.key}))).ok
        assert not stream.is_alive()
        stream.close()
        assert environment.connections(each.address) == 0
        driver = make_driver()  # one that never saw the router
        assert each.key not in driver.present()
    bring_entries(driver, entries(site))
    assert driver.converge(Update(drop=frozenset({gateway.key}))).ok
    environment.dismiss()
    assert environment.dump_state() <= bare
    assert driver.converge(Update(drop=frozenset({site.key}))).ok
    assert environment.dump_state() <= before


@pytest.mark.spec("L3-62")
def test_a_floating_ip_waits_for_the_agent_gateway(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
) -> None:
    floating = site.floating(50, site.nets[0].address(20))
    driver = make_driver()
    events: list[object] = []
    driver.watch(events.append)
    outcome = driver.converge(Update(put=entries(site, floating=[floating])))
    assert outcome.waiting.keys() == {floating.key}
    assert driver.converge(Update(put=entries(gateways=[gateway]))).ok
    keys = {key for each in events if isinstance(each, KeysChanged) for key in each.keys}
    assert floating.key in keys
    bring_entries(driver, entries(floating=[floating]))
    external, net = site.external, site.nets[0]
    outside = environment.machine(external.id, external.interfaces(1))
    environment.machine(net.id, net.interfaces(20), net.gateways())
    wait_until(lambda: outside.reach(floating.address), seconds=60)


@pytest.mark.spec("L3-62")
def test_a_moved_floating_ip_ends_its_connections(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
) -> None:
    net, external = site.nets[0], site.external
    floating = site.floating(50, net.address(20))
    driver = make_driver()
    bring_entries(driver, entries(site, gateways=[gateway], floating=[floating]))
    outside = environment.machine(external.id, external.interfaces(1))
    for number in (20, 21):
        environment.machine(net.id, net.interfaces(number), net.gateways())
    wait_until(lambda: outside.reach(floating.address), seconds=60)
    stream = wait_until(lambda: outside.connect(floating.address, 80))
    bring_entries(driver, entries(floating=[floating.to(net.address(21))]))
    assert not stream.is_alive()
    stream.close()
    wait_until(lambda: outside.reach(floating.address), seconds=60)


@pytest.mark.spec("L3-62", "L3-63")
def test_a_floating_ip_moves_between_the_parts_of_a_router(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> None:
    site = make_distributed()
    gateway = make_agent_gateway(site.external)
    environment.admit([*site.ports, gateway.value.port])
    net, external = site.nets[0], site.external
    local = site.floating(50, net.address(20))
    central = type(local)(
        id=local.id, value=site.floating(50, net.address(20), RouterPart.CENTRAL).value
    )
    driver = make_driver()
    outside = environment.machine(external.id, external.interfaces(1))
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    for each in (central, local, central):
        bring_entries(driver, entries(site, gateways=[gateway], floating=[each]))
        wait_until(lambda: outside.reach(local.address), seconds=60)
        answer = wait_until(lambda: inside.reach(external.address(1), "tcp", 80))
        if each is local:
            assert answer.source == local.address
        wanted = entries(site, gateways=[gateway], floating=[each])
        assert not plan(driver, Update(put=wanted, complete=True))


@pytest.mark.spec("L3-62")
def test_two_routers_share_an_agent_gateway_and_reach_each_other(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> None:
    one = make_distributed(make_net(1))
    two = make_distributed(make_net(2), external=one.external, number=11)
    gateway = make_agent_gateway(one.external)
    environment.admit([*one.ports, *two.ports, gateway.value.port])
    sites = [each.with_state(central=None) for each in (one, two)]
    floating = [each.floating(50 + n, each.nets[0].address(20)) for n, each in enumerate(sites)]
    driver = make_driver()
    bring_entries(driver, entries(gateways=[gateway]))
    updates = [entries(site, floating=[each]) for site, each in zip(sites, floating, strict=True)]
    threads = [threading.Thread(target=bring_entries, args=(driver, each)) for each in updates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    former = pairs(one.external.id)
    assert former == ["169.254.64.1", "169.254.64.3"]
    machines = [
        environment.machine(site.nets[0].id, site.nets[0].interfaces(20), site.nets[0].gateways())
        for site in sites
    ]
    wait_until(lambda: machines[0].reach(floating[1].address), seconds=60)
    answer = wait_until(lambda: machines[0].reach(floating[1].address, "tcp", 80))
    assert answer.source == floating[0].address
    driver = make_driver()
    wanted = entries(*sites, gateways=[gateway], floating=floating)
    assert not plan(driver, Update(put=wanted, complete=True))
    bring_entries(driver, wanted, complete=True)
    assert pairs(one.external.id) == former
    third = make_distributed(make_net(3), external=one.external, number=12)
    environment.admit(third.ports)
    more = third.with_state(central=None), third.floating(53, third.nets[0].address(20))
    bring_entries(driver, entries(more[0], floating=[more[1]]))
    assert pairs(one.external.id) == [*former, "169.254.64.5"]


@pytest.mark.spec("L3-62", "L3-69")
def test_a_host_has_agent_gateways_to_two_networks(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> None:
    other = RoutedNetwork(blocks=(ip_network("198.51.100.0/24"), ip_network("2001:db8:fe::/64")))
    sites = [
        make_distributed(make_net(1)).with_state(),
        make_distributed(make_net(2), external=other),
    ]
    gateways = [make_agent_gateway(each.external) for each in sites]
    environment.admit([port for each in sites for port in each.ports])
    environment.admit([each.value.port for each in gateways])
    sites = [each.with_state(central=None) for each in sites]
    floating = [each.floating(50, each.nets[0].address(20)) for each in sites]
    driver = make_driver()
    bring_entries(driver, entries(*sites, gateways=gateways, floating=floating))
    for site, each in zip(sites, floating, strict=True):
        net, external = site.nets[0], site.external
        outside = environment.machine(external.id, external.interfaces(1))
        environment.machine(net.id, net.interfaces(20), net.gateways())
        wait_until(lambda outside=outside, each=each: outside.reach(each.address), seconds=60)
    keys = frozenset({sites[0].key, floating[0].key, gateways[0].key})
    assert driver.converge(Update(drop=keys)).ok
    assert driver.present() == {sites[1].key, floating[1].key, gateways[1].key}


@pytest.mark.spec("L3-62")
@pytest.mark.parametrize(
    "words",
    [
        "ip netns exec fip-{network} ip route delete {floating}",
        "ip netns exec fip-{network} ip route delete default",
        "ip netns exec fip-{network} ip route flush table main",
        "ip netns exec fip-{network} ip route delete 169.254.64.0/31",
        "ip netns exec qrouter-{router} ip route flush table main",
        "ip netns exec qrouter-{router} ip rule delete priority 32768",
        "ip netns exec qrouter-{router} ip route flush table 16",
        "ip netns exec qrouter-{router} ip link delete rfp-{short}",
    ],
)
def test_what_was_removed_by_hand_is_reported_and_added_again(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
    words: str,
) -> None:
    net, external = site.nets[0], site.external
    floating = site.floating(50, net.address(20))
    wanted = entries(site, gateways=[gateway], floating=[floating])
    driver = make_driver()
    events: list[object] = []
    driver.watch(events.append)
    bring_entries(driver, wanted)
    outside = environment.machine(external.id, external.interfaces(1))
    environment.machine(net.id, net.interfaces(20), net.gateways())
    wait_until(lambda: outside.reach(floating.address), seconds=60)
    events.clear()
    command = words.format(
        network=external.id,
        router=site.router,
        floating=floating.address,
        short=str(site.router)[:10],
    )
    subprocess.run(command.split(), check=True)
    key = gateway.key if "default" in words else site.key
    wait_until(
        lambda: any(key in each.keys for each in events if isinstance(each, KeysChanged)),
        seconds=60,
    )
    bring_entries(driver, wanted)
    wait_until(lambda: outside.reach(floating.address), seconds=60)
    assert not plan(make_driver(), Update(put=wanted, complete=True))


@pytest.mark.spec("L3-30", "L3-62")
def test_a_floating_ip_whose_route_is_refused_fails_alone(
    make_driver: MakeDriver, site: DistributedSite, gateway: AgentGatewaySite
) -> None:
    one, two = (site.floating(50 + number, site.nets[0].address(20 + number)) for number in (0, 1))
    driver, wanted = make_driver(), entries(site, gateways=[gateway], floating=[one, two])
    bring_entries(driver, wanted)
    daemon = ["prohibit", f"{one.address}/32", "proto", "bird"]  # the route of a routing daemon
    in_gateway(site.external.id, "ip", "route", "replace", *daemon)
    in_gateway(site.external.id, "ip", "route", "delete", f"{two.address}/32")
    outcome = converge_isolated(driver, Update(put=wanted))
    assert outcome.failed.keys() == {one.key}
    assert f"{two.address} via" in in_gateway(site.external.id, "ip", "route")
    in_gateway(site.external.id, "ip", "route", "delete", *daemon)
    bring_entries(driver, wanted)
    assert f"{one.address} via" in in_gateway(site.external.id, "ip", "route")


@pytest.mark.spec("L3-62")
def test_a_floating_ip_is_announced_once_it_works(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
) -> None:
    net, external = site.nets[0], site.external
    floating = site.floating(50, net.address(20))
    driver = make_driver()
    bring_entries(driver, entries(site, gateways=[gateway]))
    outside = environment.machine(external.id, external.interfaces(1))
    inside = environment.machine(net.id, net.interfaces(20), net.gateways())
    wait_until(lambda: inside.reach(net.address(1)), seconds=60)
    mac, echo = outside.announced(
        floating.address, next_mac(), lambda: bring_entries(driver, entries(floating=[floating]))
    )
    assert mac == gateway.value.port.mac
    assert echo is not None


@pytest.mark.spec("L3-62")
def test_a_floating_ip_waits_until_the_switch_has_admitted_the_agent_gateway(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: DistributedSite
) -> None:
    gateway = make_agent_gateway(site.external)
    floating = site.floating(50, site.nets[0].address(20))
    wanted = entries(site, gateways=[gateway], floating=[floating])
    driver = make_driver()
    events: list[object] = []
    driver.watch(events.append)
    bring_entries(driver, entries(site))
    assert driver.converge(Update(put=wanted)).waiting.keys() == {floating.key}
    environment.admit([gateway.value.port])
    wait_until(
        lambda: any(floating.key in each.keys for each in events if isinstance(each, KeysChanged)),
        seconds=60,
    )
    bring_entries(driver, wanted)


@pytest.mark.spec("L3-62")
def test_the_link_follows_the_external_network_of_the_router(
    environment: LinuxRouterEnvironment,
    make_driver: MakeDriver,
    site: DistributedSite,
    gateway: AgentGatewaySite,
) -> None:
    net = site.nets[0]
    other = RoutedNetwork(blocks=(ip_network("198.51.100.0/24"), ip_network("2001:db8:fe::/64")))
    moved = evolve(site, external=other).with_state(
        local=evolve(site.local, external_network=other.id)
    )
    second = make_agent_gateway(other)
    environment.admit([second.value.port])
    driver = make_driver()
    old, new = site.floating(50, net.address(20)), moved.floating(50, net.address(20))
    bring_entries(driver, entries(site, gateways=[gateway, second], floating=[old]))
    assert pairs(site.external.id)
    bring_entries(driver, entries(moved, floating=[new]), drop=frozenset({old.key}))
    assert not pairs(site.external.id)
    outside = environment.machine(other.id, other.interfaces(1))
    environment.machine(net.id, net.interfaces(20), net.gateways())
    wait_until(lambda: outside.reach(new.address), seconds=60)
    wanted = entries(moved, gateways=[gateway, second], floating=[new])
    assert not plan(make_driver(), Update(put=wanted, complete=True))
