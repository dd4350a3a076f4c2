"""Links, addresses, routes, rules and neighbours on the real kernel, compared with ``ip``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address, ip_interface, ip_network

import pytest
from attrs import evolve

from netfw.errors import BackendBroken, Conflict, NotFound, OperationRefused
from netfw.linux import netns, offload
from netfw.linux.execute import BatchStopped
from netfw.linux.netlink import Netlink
from netfw.linux.network import Network
from netfw.linux.operations import (
    AddAddress,
    AddLink,
    AddRoute,
    AddRule,
    AddVeth,
    DelAddress,
    DelLink,
    DelNeighbour,
    DelRoute,
    DelRule,
    MoveLink,
    RenameLink,
    SetChecksumOffload,
    SetMac,
    SetMaster,
    SetMtu,
    SetSysctl,
    SetUp,
)
from netfw.linux.plan import plan_addresses, plan_neighbours, plan_routes, plan_rules
from netfw.linux.values import (
    Address,
    Neighbour,
    NextHop,
    Route,
    RouteKind,
    Rule,
    RuleAction,
    Scope,
    addresses,
    route,
)
from netfw.model.address import Mac


@pytest.fixture
def blue() -> Iterator[Network]:
    """A namespace with a device e0, up, whose other end o0 is in a namespace ``outside``."""
    netns.create("blue")
    netns.create("outside")
    with Network("blue") as network, Network("outside") as outside:
        network.apply([AddVeth(name="e0", peer="o0", peer_namespace="outside"), SetUp("e0")])
        outside.apply([SetUp("o0")])
        yield network


def await_state(network: Network, **wanted: str) -> None:
    deadline = time.monotonic() + 10
    while True:
        links = network.links()
        states = {name: links[name].state for name in wanted}
        if states == wanted:
            return
        assert time.monotonic() < deadline, states
        time.sleep(0.01)


def test_links_are_listed_as_ip_lists_them(blue, ip):
    blue.apply(
        [
            AddLink("br0", "bridge"),
            AddVeth(name="v0", peer="v1"),
            SetMaster("v0", "br0"),
            SetMtu("v1", 1400),
            SetMac("v1", "fa:16:3e:00:00:01"),
            SetUp("v1"),
        ]
    )
    # The kernel settles operational states a moment after the devices come up.
    await_state(blue, e0="up", v1="lowerlayerdown")
    found = blue.links()
    listed = ip("-n", "blue", "link", "show")
    assert {
        entry["ifname"]: (
            entry["ifindex"],
            entry["mtu"],
            entry["address"],
            "UP" in entry["flags"],
            entry["operstate"].lower(),
            entry.get("master"),
            entry.get("linkinfo", {}).get("info_kind"),
        )
        for entry in listed
    } == {
        link.name: (link.index, link.mtu, link.mac, link.up, link.state, link.master, link.kind)
        for link in found.values()
    }
    assert found["v0"].master == "br0"
    assert (found["v1"].mtu, found["v1"].mac) == (1400, Mac("fa:16:3e:00:00:01"))
    blue.apply([SetMaster("v0", None), SetUp("v1", up=False)])
    assert blue.links()["v0"].master is None
    assert blue.links()["v1"].up is False


def test_a_device_is_renamed_moved_and_deleted(blue):
    netns.create("red")
    blue.apply(
        [
            AddVeth(name="v0", peer="v1"),
            RenameLink("v0", "w0"),
            MoveLink(name="w0", namespace="red", new_name="inside"),
        ]
    )
    with Network("red") as red:
        assert set(red.links()) == {"lo", "inside"}
        red.apply([MoveLink(name="inside", namespace=netns.of_process(os.getpid()))])
    with Network() as here:
        assert "inside" in here.links()
        here.apply([DelLink("inside"), DelLink("inside")])
        assert "inside" not in here.links()
    assert "v1" not in blue.links()


def test_dummy_devices_are_made_or_refused_with_a_reason(blue):
    with suppress(BackendBroken):
        blue.apply([AddLink("d0", "dummy")])
        assert blue.links()["d0"].kind == "dummy"
    with pytest.raises(BackendBroken, match=r"ip link add d1 type no-such: .*kernel lacks it"):
        blue.apply([AddLink("d1", "no-such")])


def test_checksum_offload_is_switched_without_a_process(blue):
    blue.apply([SetChecksumOffload("e0", False)])
    assert netns.run_in("blue", offload.checksum_offload, "e0") is False
    blue.apply([SetChecksumOffload("e0", True)])
    assert netns.run_in("blue", offload.checksum_offload, "e0") is True
    with pytest.raises(NotFound, match="ethtool -K nowhere tx off"):
        blue.apply([SetChecksumOffload("nowhere", False)])


def cidrs(network: Network, device: str = "e0") -> set[str]:
    return {
        str(entry.address.interface) for entry in network.addresses(device) if not entry.automatic
    }


@pytest.mark.spec("DHCP-26")
def test_addresses_become_those_that_are_wanted(blue, ip):
    first = addresses("e0", ["10.0.0.2/24", "169.254.169.254/32", "fd00::2/64"])
    assert blue.converge_addresses("e0", first) == ()
    assert cidrs(blue) == {"10.0.0.2/24", "169.254.169.254/32", "fd00::2/64"}
    second = addresses("e0", ["10.0.0.3/24", "fd00::2/64", "fe80::a9fe:a9fe/128"])
    removed = blue.converge_addresses("e0", second)
    assert {str(address.interface) for address in removed} == {"10.0.0.2/24", "169.254.169.254/32"}
    assert cidrs(blue) == {"10.0.0.3/24", "fd00::2/64", "fe80::a9fe:a9fe/128"}
    assert plan_addresses(second, blue.addresses("e0")) == ()
    listed = ip("-n", "blue", "address", "show", "dev", "e0")[0]["addr_info"]
    own = [e["local"] for e in listed if e["local"].startswith("fe80:") and e["prefixlen"] == 64]
    assert len(own) == 1, "the device keeps its own link-local address"
    assert blue.converge_addresses("e0", second[:1]) != ()
    assert cidrs(blue) == {"10.0.0.3/24"}


@pytest.mark.spec("DHCP-26")
def test_addresses_with_a_lifetime_stay_and_become_permanent_when_wanted(blue, ip):
    for cidr in ("10.0.0.2/24", "fd00::2/64", "fd00::3/64"):
        lifetimes = ("valid_lft", "600", "preferred_lft", "600")
        ip("-n", "blue", "address", "add", cidr, "dev", "e0", *lifetimes)
    wanted = addresses("e0", ["10.0.0.2/24", "fd00::2/64"])
    assert blue.converge_addresses("e0", wanted) == ()
    permanent = {str(e.address.interface): e.permanent for e in blue.addresses("e0")}
    assert (
        permanent.items() >= {"10.0.0.2/24": True, "fd00::2/64": True, "fd00::3/64": False}.items()
    )


@pytest.mark.parametrize("promote", ["0", "1"])
def test_removing_the_first_address_of_a_network_takes_no_other_with_it(blue, promote):
    blue.apply([SetSysctl("net.ipv4.conf.e0.promote_secondaries", promote)])
    blue.converge_addresses("e0", addresses("e0", ["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"]))
    blue.converge_addresses("e0", addresses("e0", ["10.0.0.3/24", "10.0.0.4/24"]))
    assert cidrs(blue) == {"10.0.0.3/24", "10.0.0.4/24"}


def test_an_ipv6_address_changes_its_prefix_length_and_skips_duplicate_detection(blue):
    wanted = Address(device="e0", interface="fd00::2/64", nodad=True)
    blue.converge_addresses("e0", [wanted])
    assert [e.tentative for e in blue.addresses("e0") if e.permanent and not e.automatic] == [False]
    blue.converge_addresses("e0", [evolve(wanted, interface=ip_interface("fd00::2/128"))])
    assert cidrs(blue) == {"fd00::2/128"}


def test_an_address_without_its_route_and_with_another_scope(blue, ip):
    wanted = [
        Address(device="e0", interface="10.0.0.2/24", noprefixroute=True, scope=Scope.LINK),
        Address(device="e0", interface="fd00::2/64", noprefixroute=True, nodad=True),
    ]
    blue.converge_addresses("e0", wanted)
    assert ip("-n", "blue", "route", "show") == []
    assert plan_addresses(wanted, blue.addresses("e0")) == ()
    blue.converge_addresses("e0", [evolve(address, noprefixroute=False) for address in wanted])
    assert [entry["dst"] for entry in ip("-n", "blue", "route", "show")] == ["10.0.0.0/24"]
    changed = [evolve(wanted[0], scope=Scope.GLOBAL, noprefixroute=False)]
    blue.converge_addresses("e0", changed)
    assert [e.address.scope for e in blue.addresses("e0") if not e.automatic] == [Scope.GLOBAL]


ROUTES = (
    route("default", via="10.0.0.1", device="e0"),
    route("default", via="fd00::1", device="e0"),
    route("10.1.0.0/16", via="10.0.0.9", metric=50),
    route("10.2.0.0/16", device="e0", source=ip_address("10.0.0.2")),
    route("10.3.0.0/16", via="192.0.2.1", device="e0", onlink=True),
    route("192.0.2.128/25", device="e0"),
    route("10.4.0.0/16", via="192.0.2.129", device="e0"),
    route("fd01::/64", device="e0", metric=7),
    route("fd02::/64", via="fd00::9"),
    route("fd03::/64", via="fe80::1", device="e0"),
    Route(destination="10.5.0.0/16", kind=RouteKind.BLACKHOLE),
    Route(destination="fd05::/64", kind=RouteKind.UNREACHABLE),
    Route(
        destination="10.6.0.0/16",
        hops=(
            NextHop(via=ip_address("10.0.0.11"), device="e0", weight=2),
            NextHop(via=ip_address("10.0.0.12"), device="e0"),
        ),
    ),
    Route(
        destination="fd06::/64",
        hops=(NextHop(via=ip_address("fd00::11")), NextHop(via=ip_address("fd00::12"))),
    ),
    route("10.7.0.0/16", via="fd00::1", device="e0"),
)


@pytest.fixture
def addressed(blue: Network) -> Network:
    wanted = [
        Address(device="e0", interface="10.0.0.2/24"),
        Address(device="e0", interface="fd00::2/64", nodad=True),
    ]
    blue.converge_addresses("e0", wanted)
    return blue


def converge_routes(network: Network, wanted, table: int = 254):
    plan = plan_routes(wanted, network.routes(table))
    network.apply(plan)
    return plan


@pytest.mark.parametrize("table", [254, 100, 100_000])
def test_routes_of_every_kind_are_added_found_and_removed(addressed, table, ip):
    wanted = [evolve(entry, table=table) for entry in ROUTES]
    if table != 254:
        converge_routes(addressed, [route("192.0.2.128/25", device="e0")])
    assert len(converge_routes(addressed, wanted, table)) == len(ROUTES)
    assert plan_routes(wanted, addressed.routes(table)) == ()
    shown = [
        entry
        for family in ("-4", "-6")
        for entry in ip(family, "-n", "blue", "route", "show", "table", str(table))
        if entry.get("protocol") == "static"
    ]
    assert len(shown) == len(ROUTES)
    converge_routes(addressed, [], table)
    assert [r for r in addressed.routes(table) if r.protocol == 4] == []


def test_routes_of_the_kernel_and_of_daemons_are_left_alone(addressed, ip):
    ip("-n", "blue", "route", "add", "10.8.0.0/16", "via", "10.0.0.8", "proto", "bird")
    before = addressed.routes()
    assert {str(r.destination) for r in before} >= {"10.0.0.0/24", "10.8.0.0/16", "fd00::/64"}
    assert converge_routes(addressed, []) == ()
    with pytest.raises(Conflict, match=r"ip route add 10\.8\.0\.0/16"):
        converge_routes(addressed, [route("10.8.0.0/16", via="10.0.0.1")])
    assert addressed.routes() == before


def test_a_gateway_changes_in_one_step(addressed):
    converge_routes(addressed, [route("default", via="10.0.0.1"), route("::/0", via="fd00::1")])
    wanted = [route("default", via="10.0.0.254"), route("::/0", via="fd00::fe")]
    assert [op.text for op in converge_routes(addressed, wanted)] == [
        "ip route replace 0.0.0.0/0 via 10.0.0.254 table 254",
        "ip route replace ::/0 via fd00::fe metric 1024 table 254",
    ]
    assert {
        str(hop.via) for r in addressed.routes() if not r.destination.prefixlen for hop in r.hops
    } == {"10.0.0.254", "fd00::fe"}


RULES = (
    Rule(priority=100, source="10.9.0.0/16", table=100),
    Rule(priority=101, source="fd09::/64", destination="fd0a::/64", table=100_000),
    Rule(priority=102, iif="e0", mark=0x10, mask=0xFF, table=7),
    Rule(priority=103, version=6, oif="e0", table=7),
    Rule(priority=104, destination="192.0.2.1", action=RuleAction.UNREACHABLE, table=0),
)


def test_rules_are_added_found_and_removed_and_others_stay(blue, ip):
    ip("-n", "blue", "rule", "add", "priority", "50", "ipproto", "tcp", "lookup", "9")
    before = blue.rules()
    assert {rule.priority for rule in before} == {0, 50, 32766, 32767}
    blue.apply(plan_rules(RULES, before))
    assert plan_rules(RULES, blue.rules()) == ()
    shown = {rule["priority"]: rule for rule in ip("-4", "-n", "blue", "rule", "show")}
    assert (shown[100]["src"], shown[100]["srclen"], shown[100]["table"]) == ("10.9.0.0", 16, "100")
    assert (shown[102]["fwmark"], shown[102]["fwmask"], shown[102]["iif"]) == ("0x10", "0xff", "e0")
    with pytest.raises(Conflict, match="ip -4 rule add priority 100"):
        blue.apply([AddRule(RULES[0])])
    blue.apply(plan_rules([], blue.rules()))
    assert blue.rules() == before


def test_neighbours_are_set_changed_and_removed(blue, ip):
    wanted = [
        Neighbour(device="e0", address="10.0.0.5", mac=Mac("fa:16:3e:00:00:05")),
        Neighbour(device="e0", address="fd00::5", mac=Mac("fa:16:3e:00:00:05")),
        Neighbour(device="e0", address="10.0.0.6", proxy=True),
        Neighbour(device="e0", address="fd00::6", proxy=True),
    ]
    blue.apply(plan_neighbours(wanted, blue.neighbours()))
    assert plan_neighbours(wanted, blue.neighbours()) == ()
    shown = ip("-n", "blue", "neighbour", "show", "nud", "permanent")
    assert {(e["dst"], e["lladdr"]) for e in shown} == {
        ("10.0.0.5", "fa:16:3e:00:00:05"),
        ("fd00::5", "fa:16:3e:00:00:05"),
    }
    changed = [evolve(wanted[0], mac=Mac("fa:16:3e:00:00:55")), wanted[2]]
    blue.apply(plan_neighbours(changed, blue.neighbours()))
    assert set(blue.neighbours()) == set(changed)
    blue.apply(plan_neighbours([], blue.neighbours()))
    assert blue.neighbours() == ()


def test_removing_what_is_absent_succeeds(blue):
    gone = addresses("nowhere", ["10.0.0.2/24"])[0]
    blue.apply(
        [
            DelLink("nowhere"),
            DelAddress(gone),
            DelAddress(evolve(gone, device="e0")),
            DelAddress(evolve(gone, device="e0", interface=ip_interface("fd00::2/64"))),
            DelRoute(route("10.9.0.0/16", device="e0")),
            DelRoute(route("fd09::/64", device="e0")),
            DelRoute(route("10.9.0.0/16", device="nowhere")),
            DelRule(RULES[0]),
            DelRule(RULES[1]),
            DelNeighbour(Neighbour(device="e0", address="10.0.0.9", mac=Mac("fa:16:3e:00:00:09"))),
            DelNeighbour(Neighbour(device="e0", address="fd00::9", proxy=True)),
        ]
    )


def test_a_refused_operation_is_named_with_what_was_done_before(blue):
    batch = [SetMtu("e0", 1400), AddLink("e0", "bridge"), SetMtu("e0", 1300)]
    with pytest.raises(Conflict, match="ip link add e0 type bridge: File exists") as caught:
        blue.apply(batch)
    stopped = caught.value.__cause__
    assert isinstance(stopped, BatchStopped)
    assert (stopped.failed, stopped.done) == (batch[1], (batch[0],))
    assert "ip link set e0 mtu 1400" in str(stopped)
    assert blue.links()["e0"].mtu == 1400


@pytest.mark.parametrize(
    ("operation", "error", "words"),
    [
        (SetUp("nowhere"), NotFound, "ip link set nowhere up: there is no device nowhere"),
        (AddAddress(addresses("nowhere", ["10.0.0.2/24"])[0]), NotFound, "nowhere"),
        (AddAddress(addresses("nowhere", ["fd00::2/64"])[0]), NotFound, "nowhere"),
        (AddRoute(route("fd09::/64", device="nowhere")), NotFound, "nowhere"),
        (AddRoute(route("10.9.0.0/16", via="10.99.0.1")), OperationRefused, "gateway"),
        (SetMtu("e0", 20), OperationRefused, "mtu less than device minimum"),
        (MoveLink(name="e0", namespace="nowhere"), NotFound, "no network namespace nowhere"),
        (AddVeth(name="a", peer="b", peer_namespace="nowhere"), NotFound, "nowhere"),
        (SetSysctl("net.ipv4.nothing", "1"), NotFound, "net.ipv4.nothing"),
    ],
)
def test_errors_are_netfws_own_and_say_what_the_kernel_said(blue, operation, error, words):
    with pytest.raises(error, match=words):
        blue.apply([operation])


def test_without_the_right_to_do_so_the_message_says_what_is_lacking(blue):
    def drop_capabilities_and_try() -> None:
        # Capabilities belong to a thread: this one is thrown away with them.
        import ctypes

        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        none = (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, none) == 0
        with Network() as powerless:
            powerless.apply([AddLink("br9", "bridge")])

    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(BackendBroken, match=r"ip link add br9 type bridge: .*run as root"),
    ):
        pool.submit(drop_capabilities_and_try).result()


def test_a_netlink_socket_refuses_every_thread_but_its_own(blue):
    with netns.worker("blue") as there:
        socket = there.run(Netlink)
        for misuse in (
            lambda: socket.index("e0"),
            lambda: socket.name(1),
            lambda: socket.dump(None),
            lambda: socket.send(None),
            socket.receive,
        ):
            with pytest.raises(RuntimeError, match="belongs to the thread netns-blue"):
                misuse()
        assert there.run(socket.index, "e0") == blue.links()["e0"].index
        socket.close()


def test_networks_of_two_namespaces_used_by_two_threads_200_times_never_mix():
    for name in ("blue", "red"):
        netns.create(name)

    def work(name: str) -> set[str]:
        with Network(name) as network:
            network.apply([AddLink(f"br-{name}", "bridge")])
        seen: set[str] = set()
        for turn in range(200):
            with Network(name) as network:
                address = addresses(f"br-{name}", [f"10.0.0.{turn % 2 + 1}/24"])
                network.converge_addresses(f"br-{name}", address)
                seen |= set(network.links())
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, ["blue", "red"])) == [{"lo", "br-blue"}, {"lo", "br-red"}]


def test_a_network_leaves_no_thread_and_no_descriptor_whatever_happens(blue):
    def state() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    def crash() -> None:
        raise ZeroDivisionError

    before = state()
    for _ in range(10):
        with pytest.raises(ZeroDivisionError), Network("blue") as network:
            network.run(crash)
        with pytest.raises(NotFound):
            Network("nowhere")
        with pytest.raises(Conflict), Network("blue") as network:
            network.apply([AddVeth(name="e0", peer="x", peer_namespace="outside")])
    assert state() == before


def test_a_crash_keeps_no_namespace_alive():
    netns.create("blue")
    netns.create("outside")

    def crash() -> None:
        raise ZeroDivisionError

    with Network("outside") as outside:
        outside.apply([AddVeth(name="o0", peer="e0", peer_namespace="blue")])
        with pytest.raises(ZeroDivisionError), Network("blue") as blue:
            blue.run(crash)
        with pytest.raises(ZeroDivisionError):
            netns.run_in("blue", crash)
        netns.delete("blue")
        deadline = time.monotonic() + 10
        while "o0" in outside.links():
            assert time.monotonic() < deadline, "something still refers to the namespace"
            time.sleep(0.01)


@pytest.mark.spec("DRV-46")
def test_a_namespace_without_ipv6_is_served_ipv4_only_and_says_so(blue):
    assert blue.why_no_ipv6() is None
    blue.apply([SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")])
    assert "switched off" in (blue.why_no_ipv6() or "")
    assert "switched off" in (blue.why_no_ipv6("e0") or "")
    six = AddAddress(Address(device="e0", interface="fd00::2/64"))
    sixth = AddRoute(route("fd01::/64", via="fd00::1", device="e0"))
    four = AddAddress(Address(device="e0", interface="10.0.0.2/24"))
    applied = blue.apply([six, sixth, four])
    assert applied.done == (four,)
    assert list(applied.skipped) == [six, sixth]
    assert all("disable_ipv6=1" in why for why in applied.skipped.values())
    assert cidrs(blue) == {"10.0.0.2/24"}
    assert {str(r.destination) for r in blue.routes()} == {"10.0.0.0/24"}


@pytest.mark.spec("DRV-46")
def test_a_device_whose_ipv6_was_switched_on_again_gets_it(blue):
    blue.apply([SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")])
    six = AddAddress(Address(device="e0", interface="fd00::2/64", nodad=True))
    on = SetSysctl("net/ipv6/conf/e0/disable_ipv6", "0")
    assert blue.apply([on, six]).skipped == {}
    assert "fd00::2/64" in cidrs(blue)


def test_many_addresses_are_listed_whole(blue):
    wanted = addresses("e0", [f"10.0.{n // 250}.{n % 250 + 1}/16" for n in range(1000)])
    blue.converge_addresses("e0", wanted)
    assert len(blue.addresses("e0")) == 1001
    assert len(blue.addresses()) > 1001
    assert plan_addresses(wanted, blue.addresses("e0")) == ()
    assert ip_network("10.0.0.0/16") in {r.destination for r in blue.routes()}
