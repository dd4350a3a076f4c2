"""Real packets between instances on all kinds of networks, over all kinds of underlays."""

from itertools import permutations

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.captures import listening, shout
from tests.system.l2.agent_host import (
    MESH4,
    MESH6,
    PHYSNET,
    POPULATED4,
    POPULATED6,
    PROVIDER,
    TUNNELS,
)
from tests.system.l2.environment import SOON, Site

KINDS = ("vxlan", "gre", "geneve", "vlan", "flat")


@pytest.mark.spec("L2-33", "L2-31", "L2-23", "L2-13")
def test_networks_of_all_kinds_join_three_hosts_and_do_not_hear_each_other(site: Site):
    # All networks have the same addresses; no port receives a frame of another network.
    ports = {
        kind: [site.port(net, host) for host in site.hosts]
        for kind in KINDS
        for net in [site.network(kind)]
    }
    site.topology.write()
    everybody = [port for group in ports.values() for port in group]
    instances = {port: site.plug(port) for port in everybody}
    site.settle()
    with listening(*instances.values()) as captures:
        for group in ports.values():
            for one, two in permutations(group, 2):
                assert_reached(instances[one], two.v4)
                assert_reached(instances[one], two.v6)
        for port, each in zip(everybody, captures, strict=True):
            friends = ports[_kind(ports, port)]
            strangers = {other.mac for other in everybody if other not in friends}
            assert not {frame.source for frame in each.received()} & strangers


def assert_reached(instance: Instance, address: str) -> None:
    wait_until(
        lambda: not instance.ping(address, count=1, timeout=SOON).lost,
        lambda: (instance.name, address),
    )


def _kind(ports, port):
    return next(kind for kind, group in ports.items() if port in group)


@pytest.mark.flavours(POPULATED4)
def test_two_networks_may_have_the_same_macs_and_addresses(site: Site):
    nets = [site.network("vxlan"), site.network("vxlan")]
    groups = [
        [
            site.port(net, host, mac_address=f"fa:16:3e:ee:00:0{number}")
            for number, host in enumerate(("host1", "host2"))
        ]
        for net in nets
    ]
    lonely = site.port(nets[1], "host2")
    site.topology.write()
    (one, two), (three, four) = ([site.plug(port) for port in group] for group in groups)
    fifth = site.plug(lonely)
    site.settle()
    assert_reached(one, "10.0.0.2")
    assert_reached(three, lonely.v4)
    with listening(four, fifth) as captures:
        assert two.ping("10.0.0.1").lost == 0
        assert one.ping(lonely.v4).received == 0
        frames = [frame for each in captures for frame in each.received()]
        assert not [frame for frame in frames if frame.is_ipv4]


@pytest.mark.flavours(MESH4)
def test_a_local_network_stays_on_its_host(site: Site):
    net = site.network("local")
    one, two, far = (site.port(net, host) for host in ("host1", "host1", "host2"))
    site.topology.write()
    first, _, third = (site.plug(port) for port in (one, two, far))
    site.settle()
    assert first.ping(two.v4).lost == 0
    with listening(third) as (capture,):
        assert first.ping(far.v4, timeout=0.5).received == 0
        assert capture.received() == []


@pytest.mark.spec("L2-24", "L2-31")
def test_questions_for_addresses_are_answered_on_the_host_where_the_ports_are_known(site: Site):
    couple = site.couple("vxlan", "host1", "host2")
    site.settle()
    couple.await_reach()
    one, two = couple.instances
    for version, target in ((4, couple.ports[1].v4), (6, couple.ports[1].v6)):
        one.run(["ip", f"-{version}", "neigh", "flush", "dev", "eth0"])
        with listening(two) as (capture,):
            assert one.ping(target, count=3).lost == 0
            asked = [frame for frame in capture.received() if frame.is_question]
        assert bool(asked) is not site.flavour.population, version


@pytest.mark.spec("L2-32", "L2-31", "L2-15", "L2-30")
def test_tunnels_are_there_for_those_that_need_them(site: Site):
    populated = site.flavour.population
    everybody = 2 * len(TUNNELS)
    assert [len(_tunnels(site, host)) for host in site.hosts] == 3 * [0 if populated else everybody]
    couple = site.couple("vxlan", "host1", "host2")
    site.settle()
    needed = [1, 1, 0] if populated else 3 * [everybody]
    assert [len(_tunnels(site, host)) for host in site.hosts] == needed
    (name,) = (
        name for name, options in _tunnels(site, "host1").items()
        if name.startswith("vxlan-") and site["host2"].local_ip in options
    )  # fmt: skip
    if site.flavour.ip == 4:
        assert name == "vxlan-c6120002"
    options = _tunnels(site, "host1")[name]
    for option in (
        "in_key=flow", "out_key=flow", 'df_default="true"', f'local_ip="{site["host1"].local_ip}"',
    ):  # fmt: skip
        assert option in options
    site.unplug(couple.ports[1])
    site.topology.ports.remove(couple.ports[1])
    site.settle()
    assert [len(_tunnels(site, host)) for host in site.hosts] == 3 * [0 if populated else everybody]


def _tunnels(site: Site, host: str) -> dict[str, str]:
    """Return the tunnels of a host, with their options."""
    agent = site[host]
    names = agent.vsctl("list-ports", "br-tun").split()
    return {
        name: agent.vsctl("get", "Interface", name, "options")
        for name in names
        if name.startswith(TUNNELS)
    }


@pytest.mark.flavours(MESH4, MESH6)
def test_full_size_packets_pass_and_larger_ones_do_not(site: Site):
    kinds = KINDS if site.flavour.ip == 4 else TUNNELS
    couples = {kind: site.couple(kind, "host1", "host2") for kind in kinds}
    site.settle()
    for kind, couple in couples.items():
        couple.await_reach()
        mtu = site.topology.mtu(couple.net)
        for instance in couple.instances:
            instance.run(["ip", "link", "set", "eth0", "mtu", "1600"])
        assert mtu == 1500 if kind in ("vlan", "flat") else 1380 < mtu < 1500
        assert _passes(couple, mtu, timeout=2), kind
        assert not _passes(couple, 1501, timeout=0.5), kind


def _passes(couple, size: int, timeout: float) -> bool:
    """Return whether packets of this size get there and back in one piece."""
    target = couple.ports[1].v4
    argv = ["ping", "-n", "-q", "-c", "2", "-i", "0.05", "-W", str(timeout), "-M", "do"]
    done = couple.instances[0].attempt([*argv, "-s", str(size - 28), target])
    return " 0% packet loss" in done.output


@pytest.mark.flavours(MESH4)
@pytest.mark.spec("L2-02", "L2-03", "L2-04")
def test_bridges_are_made_and_joined(site: Site):
    host = site["host1"]
    for bridge in ("br-int", "br-tun", PROVIDER):
        assert host.vsctl("get", "Bridge", bridge, "fail_mode") == "secure"
        assert host.vsctl("get", "Bridge", bridge, "datapath_type") == "netdev"
    assert {"OpenFlow13", "OpenFlow14"} <= set(
        host.vsctl("--bare", "get", "Bridge", "br-int", "protocols").strip("[]").split(", ")
    )
    pairs = {"patch-tun": "patch-int", f"int-{PROVIDER}": f"phy-{PROVIDER}"}
    for near, far in pairs.items():
        assert host.vsctl("get", "Interface", near, "options:peer").strip('"') == far
        assert host.vsctl("get", "Interface", far, "options:peer").strip('"') == near
    assert host.vsctl("port-to-br", f"phy-{PROVIDER}") == PROVIDER
    assert host.vsctl("port-to-br", "patch-int") == "br-tun"


@pytest.mark.flavours(MESH4)
@pytest.mark.spec("L2-03", "L2-23")
def test_only_what_is_translated_passes_between_the_bridges(site: Site):
    couple = site.couple("vlan", "host1", "host2", segmentation_id=700)
    other = site.couple("vxlan", "host1", "host2")
    for port in (*couple.ports, *other.ports):  # a firewall lets no such frame in
        port.more["port_security_enabled"] = False
    site.settle()
    couple.await_reach()
    fabric, stranger = site.lab.provider[PHYSNET].namespaces, b"\x02\0\0\0\0\x01"
    internal = int(site["host1"].tag(other.ports[0]))
    with listening(*couple.instances, *other.instances) as captures:
        for vlan in (internal, 701, 4095, None, 700):
            shout(fabric, "fabric", source=stranger, vlan=vlan)
        # Frames of one sender are not reordered: when the last is there, so are the others.
        heard = [wait_until(lambda each=each: _from(each, stranger)) for each in captures[:2]]
        assert [len(frames) for frames in heard] == [1, 1]
        assert [_from(each, stranger) for each in captures[2:]] == [[], []]


def _from(capture, source: bytes):
    return [frame for frame in capture.received() if frame.content[6:12] == source]


@pytest.mark.flavours(MESH4, POPULATED6)
@pytest.mark.spec("L2-30")
def test_a_host_whose_endpoint_moves_is_found_again(shared_site: Site):
    site, host = shared_site, shared_site["host3"]
    couple = site.couple("geneve", "host1", "host3")
    site.settle()
    couple.await_reach()
    former = host.local_ip
    moved = former[:-1] + "93"
    address = f"{moved}/{24 if site.flavour.ip == 4 else 64} dev br-phy"
    host.host.namespaces.ip(f"addr add {address} {'' if site.flavour.ip == 4 else 'nodad'}")
    try:
        _move_endpoint(site, moved)
        wait_until(lambda: any(moved in options for options in _tunnels(site, "host1").values()))
        couple.await_reach()
        assert not any(f'"{former}"' in options for options in _tunnels(site, "host1").values())
    finally:
        host.host.namespaces.ip(f"addr del {address}")
        _move_endpoint(site, former)
        couple.await_reach()
        site.unplug_all()
        site.topology.clear()
        site.settle()


def _move_endpoint(site: Site, address: str) -> None:
    host = site["host3"]
    host.configure(f"local_ip = {address}")
    site.topology.hosts["host3"]["local_ip"] = address
    site.topology.write()
    host.restart()
    host.configure()
