"""Distributed routers: every host routes for its own instances."""

import itertools

import pytest

from netfw.drivers.values.keys import HostKey, NetworkKey
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import Mac, as_address
from netfw.plan import Update
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.environment import mac, network_id
from tests.lab.backends.ovs.switch.routed_site import (
    TUNNELS,
    RoutedSite,
    Router,
    address,
    gateway,
    host_mac,
    listen,
    neighbour,
    reaches,
    set_sysctls,
    subnet_addresses,
)
from tests.lab.backends.ovs.switch.wire_frames import (
    ARP,
    Frame,
    between,
    frames_until,
    parse,
    received,
    resend_until,
)
from tests.nightly import nightly

pytestmark = pytest.mark.spec("L2-60")
KINDS = (*TUNNELS, "vlan", "flat")
VERSIONS = (4, 6)
ALL = "ff:ff:ff:ff:ff:ff"


@pytest.fixture
def pair(make_site, request) -> RoutedSite:
    """Place instance 10 of network 1 on the first host, 20 of network 2 on the second one."""
    site = make_site(getattr(request, "param", "vxlan"))
    site.place(0, 1, 10)
    site.place(1, 2, 20)
    site.bring()
    return site


@pytest.mark.parametrize("pair", KINDS, indirect=True)
def test_instances_of_two_hosts_reach_each_other_by_the_routers_of_their_hosts(pair):
    a, b = pair.instance(10), pair.instance(20)
    for version in VERSIONS:
        reaches(a, address(2, 20, version))
        reaches(b, address(1, 10, version))
        for instance, net in ((a, 1), (b, 2)):
            reaches(instance, address(net, 1, version))
            assert neighbour(instance, address(net, 1, version)) == gateway(pair, net)


def test_instances_of_one_host_on_a_local_network(make_site):
    site = make_site("local", count=1)
    a, b = site.place(0, 1, 10), site.place(0, 2, 20)
    site.bring()
    for version in VERSIONS:
        reaches(a, address(2, 20, version))
        reaches(b, address(1, 10, version))


@pytest.mark.parametrize("pair", KINDS, indirect=True)
def test_on_the_wire_frames_of_routers_have_the_mac_of_their_host(pair):
    macs = {gateway(pair, net) for net in pair.networks}
    wires = [pair.wire(0, net) for net in pair.networks]
    for version in VERSIONS:
        ends = address(1, 10, version), address(2, 20, version)
        for number, end in ((10, ends[1]), (20, ends[0])):
            reaches(pair.instance(number), end)
        routed = 0
        for wire in wires:
            frames = [parse(raw) for raw in received(wire)]
            assert not [one for one in frames if {one.to, one.source} & macs]
            found = [one for one in frames if between(one, *ends)]
            routed += len(found)
            for one in found:
                sender = 0 if one.ip_addresses == ends else 1
                assert one.source == host_mac(sender)
            gateways = {as_address(address(net, 1, 4)).packed for net in pair.networks}
            asked = [one.payload[24:28] for one in frames if one.kind == ARP]
            assert not gateways.intersection(asked)
        assert routed


@pytest.mark.parametrize("pair", KINDS, indirect=True)
def test_instances_see_the_mac_of_their_gateway(pair):
    b = pair.instance(20)
    ear = listen(pair, b)
    for version in VERSIONS:
        ends = address(1, 10, version), address(2, 20, version)
        reaches(pair.instance(10), ends[1])
        frames = frames_until(
            ear, lambda found, ends=ends: [one for one in found if one.ip_addresses == ends]
        )
        sources = {one.source for one in frames if one.ip_addresses == ends}
        assert sources == {gateway(pair, 2)}


@pytest.mark.parametrize("pair", ["vxlan", "vlan"], indirect=True)
def test_requests_of_routers_do_not_change_what_instances_know_of_their_gateway(pair):
    a, b = pair.instance(10), pair.instance(20)
    for version in VERSIONS:
        for _ in range(10):
            for router in pair.namespaces.values():
                router.run(["ip", "neigh", "flush", "all"])
            reaches(a, address(2, 20, version))
            for instance, net in ((a, 1), (b, 2)):
                known = neighbour(instance, address(net, 1, version))
                assert known in (gateway(pair, net), None)
        reaches(b, address(1, 10, version))
        assert neighbour(b, address(2, 1, version)) == gateway(pair, 2)


@pytest.mark.parametrize("pair", ["vxlan", "vlan"], indirect=True)
def test_routers_know_that_instances_of_other_hosts_are_reachable(pair):
    # An answer to all, as it arrives, would leave that open.
    remembers_for_long(pair)
    for version in VERSIONS:
        reaches(pair.instance(10), address(2, 20, version))
        reachable = ["ip", "neigh", "show", address(2, 20, version), "nud", "reachable"]
        wait_until(lambda command=reachable: pair.namespaces[0, 0].run(command), "an answer")


def remembers_for_long(site: RoutedSite) -> None:
    """Let routers believe a neighbour until it announces something else."""
    for (_, number), router in site.namespaces.items():
        for net in site.networks:
            for family in ("ipv4", "ipv6"):
                directory = f"net/{family}/neigh/qr-{number}-{net}"
                set_sysctls(router, {f"{directory}/base_reachable_time_ms": "3600000"})


@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_address_of_an_allowed_pair_moves_by_its_announcement(make_site, kind, version):
    site = make_site(kind)
    remembers_for_long(site)
    vip = address(2, 99, version)
    holders = [site.place(host, 2, 20 + host, open=True) for host in (0, 1)]
    guests = [site.place(host, 1, 10 + host) for host in (0, 1)]
    site.bring()
    length = 32 if version == 4 else 128
    for holder, other in itertools.permutations((0, 1)):
        device = f"{vip}/{length} dev eth0"
        holders[other].attempt(["ip", "addr", "del", *device.split()])
        holders[holder].namespaces.ip(f"addr replace {device}")
        wire = listen(site, holders[holder])
        frames = announcement(Mac(mac(20 + holder)), as_address(vip))
        for index, guest in enumerate(guests):
            resend_until(
                lambda wire=wire, frames=frames: [wire.send(frame) for frame in frames],
                lambda guest=guest: guest.ping(vip, count=1).received,
            )
            assert neighbour(site.namespaces[index, 0], vip) == mac(20 + holder)


SEVERAL = (Router(0, (1, 2)), Router(1, (1, 3), 1), Router(2, (1, 4), 2))
"""Three routers on network 1, each with subnets of its own there and on another network."""


@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
def test_instances_of_several_routers_on_a_network_see_their_own(make_site, kind):
    site = make_site(kind, routers=SEVERAL)
    for router in SEVERAL:
        for host, net, number in ((0, 1, 10), (1, router.networks[1], 20)):
            site.place_behind(router, host, net, number + router.number)
    site.bring()
    for router, version in itertools.product(SEVERAL, VERSIONS):
        near, far = (site.instance(number + router.number) for number in (10, 20))
        ear = listen(site, near)
        ends = (
            address(router.networks[1], 20 + router.number, version, router.prefix),
            address(1, 10 + router.number, version, router.prefix),
        )
        reaches(far, ends[1])
        reaches(near, ends[0])
        sources = {one.source for one in map(parse, received(ear)) if one.ip_addresses == ends}
        assert sources == {router.interface(1).mac}


@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
def test_an_instance_with_subnets_of_two_routers(make_site, kind):
    one, other = SEVERAL[:2]
    site = make_site(kind, routers=(one, other))
    own = (*subnet_addresses(1, 10, 0), *subnet_addresses(1, 10, 1))
    both = site.place(0, 1, 10, addresses=own)
    both.namespaces.ip(
        f"route add 10.1.3.0/24 via {address(1, 1, 4, 1)}",
        f"route add fd00:3:1::/64 via {address(1, 1, 6, 1)}",
    )
    site.place_behind(one, 1, 2, 20)
    site.place_behind(other, 1, 3, 21)
    site.bring()
    ear = listen(site, both)
    for (router, net, number), version in itertools.product(
        ((one, 2, 20), (other, 3, 21)), VERSIONS
    ):
        ends = (
            address(net, number, version, router.prefix),
            address(1, 10, version, router.prefix),
        )
        reaches(site.instance(number), ends[1])
        sources = {one.source for one in map(parse, received(ear)) if one.ip_addresses == ends}
        assert sources == {router.interface(1).mac}


@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
def test_two_routers_with_addresses_of_one_subnet(make_site, kind):
    # An answer does not tell which of them asked for it.
    first, second = Router(0, (1, 2)), Router(1, (1, 3), last=2)
    site = make_site(kind, routers=(first, second))
    target = site.place(1, 1, 10)
    target.namespaces.ip(
        f"route add 10.0.3.0/24 via {address(1, 2, 4)}",
        f"route add fd00:3::/64 via {address(1, 2, 6)}",
    )
    others = [site.place_behind(first, 0, 2, 20), site.place_behind(second, 0, 3, 30)]
    site.bring()
    for version, other in itertools.product(VERSIONS, others):
        reaches(other, address(1, 10, version))
    for number, version in itertools.product((0, 1), VERSIONS):
        assert neighbour(site.namespaces[0, number], address(1, 10, version)) == mac(10)


@pytest.mark.parametrize("routers", [SEVERAL[:1], SEVERAL[:2]], ids=["one", "two"])
@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
def test_an_instance_can_be_the_next_hop_of_a_route(make_site, kind, routers):
    # Packets by it are for no address of the network, by which their router could be told.
    site = make_site(kind, routers=routers)
    beyond = {4: "192.0.2.1", 6: "2001:db8::1"}
    router = routers[-1]
    a = site.place_behind(router, 0, router.networks[1], 10)
    hop = site.place_behind(router, 1, 1, 20)
    for version, target in beyond.items():
        hop.namespaces.ip(f"addr add {target} dev lo", "link set lo up")
        for index in (0, 1):
            via = address(1, 20, version, router.prefix)
            site.namespaces[index, router.number].namespaces.ip(f"route add {target} via {via}")
    site.bring()
    ear = listen(site, hop)
    for version, target in beyond.items():
        reaches(a, target)
        ends = address(router.networks[1], 10, version, router.prefix), target
        sources = {one.source for one in map(parse, received(ear)) if one.ip_addresses == ends}
        assert sources == {router.interface(1).mac}


@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
def test_a_host_without_distributed_routing_reaches_and_is_reached(make_site, kind):
    site = make_site(kind, count=3, distributed=[0, 1])
    a, b = site.place(0, 1, 10), site.place(1, 2, 20)
    plain = site.place(2, 1, 30)
    site.bring()
    ear = listen(site, plain)
    for version in VERSIONS:
        reaches(a, address(1, 30, version))
        reaches(plain, address(1, 10, version))
        reaches(a, address(2, 20, version))
        ends = address(2, 20, version), address(1, 30, version)
        seen: list[Frame] = []

        def arrived(ends=ends, seen=seen) -> bool:
            seen += [one for one in map(parse, received(ear)) if one.ip_addresses == ends]
            return bool(seen)

        resend_until(lambda ends=ends: b.ping(ends[1], count=1, timeout=0.1), arrived)
        assert {one.source for one in seen} == {host_mac(1)}


def test_tunnels_over_ipv6(make_site):
    site = make_site("vxlan", ipv6_underlay=True)
    a, b = site.place(0, 1, 10), site.place(1, 2, 20)
    site.bring()
    for version in VERSIONS:
        reaches(a, address(2, 20, version))
        reaches(b, address(1, 10, version))


@pytest.mark.parametrize("responder", [False, True], ids=["asked", "answered"])
def test_with_population(make_site, responder):
    site = make_site("vxlan", population=True, arp_responder=responder)
    a, b = site.place(0, 1, 10), site.place(1, 2, 20)
    site.bring()
    for version in VERSIONS:
        reaches(a, address(2, 20, version))
        reaches(b, address(1, 10, version))


@pytest.mark.parametrize("pair", ["vxlan", "vlan"], indirect=True)
def test_everything_is_rebuilt_after_the_switch_lost_its_flows(pair):
    before = [sorted(host.flows("br-int")) for host in pair.hosts]
    pair.machines[0].restart_switch()
    pair.revive_routers(0)
    wait_until(lambda: pair.converge(0).ok, "the switch to answer again")
    assert [sorted(host.flows("br-int")) for host in pair.hosts] == before
    for version in VERSIONS:
        reaches(pair.instance(10), address(2, 20, version))


@pytest.mark.parametrize("pair", KINDS, indirect=True)
def test_an_unchanged_state_plans_nothing_also_after_a_restart(pair):
    for index, host in enumerate(pair.hosts):
        update = Update(put=pair.state(index), complete=True)
        assert not host.driver.plan(update, host.driver.observe(None))
        driver = host.start()
        assert not driver.plan(update, driver.observe(None))
        assert {key for key in pair.state(index) if isinstance(key, HostKey)} <= driver.present()
        partial = Update(put=pair.state(index))
        assert not driver.plan(partial, driver.observe(partial))


@pytest.mark.parametrize("kind", [nightly("vxlan"), "vlan"])
def test_removal_leaves_no_flow_also_after_a_restart(make_site, kind):
    site = make_site(kind, count=1)
    site.place(0, 1, 10)
    site.bring()
    (host,) = site.hosts
    hosts = {key for key in site.state(0) if isinstance(key, HostKey)}
    site.distributed.clear()
    assert host.driver.converge(Update(put=site.state(0), complete=True)).ok
    plain = {bridge: sorted(host.flows(bridge)) for bridge in site.bridges}
    site.distributed.add(0)
    site.bring()
    driver = host.start()
    site.distributed.clear()
    former = driver.present() - site.state(0).keys()
    assert hosts <= former
    outcome = driver.converge(Update(put=site.state(0), drop=frozenset(former)))
    assert outcome.ok, outcome
    assert {bridge: sorted(host.flows(bridge)) for bridge in site.bridges} == plain
    gone = frozenset({NetworkKey(network_id(2))})
    assert host.start().converge(Update(drop=gone)).ok
