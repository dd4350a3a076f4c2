"""Operations read like commands, and refuse hostile names."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from netfw.linux.ip.operations import (
    AddAddress,
    AddLink,
    AddLinuxBridge,
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
    SetNeighbour,
    SetSysctl,
    SetUp,
    devices,
    needs_ipv6,
)
from netfw.linux.ip.values import (
    Address,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
    RouteKind,
    RuleAction,
    Scope,
    route,
)
from netfw.model.values.address import Mac

FOUR = Address(device="e0", interface="10.0.0.2/24", scope=Scope.LINK, noprefixroute=True)
SIX = Address(device="e0", interface="fd00::2/64", nodad=True)
SHARED = IpRoute(
    destination="10.0.0.0/8",
    hops=(
        NextHop(via=ip_address("10.0.0.1"), device="e0", weight=2),
        NextHop(via=ip_address("10.0.0.2")),
    ),
    metric=5,
    source=ip_address("10.0.0.9"),
)
RULE = IpRule(priority=9, source="10.0.0.0/8", iif="e0", oif="e1", mark=1, mask=255, table=7)
STATIC = Neighbour(device="e0", address="10.0.0.5", mac=Mac("fa:16:3e:00:00:05"))
PROXY = Neighbour(device="e0", address="fd00::5", proxy=True)


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (AddLink("br0", "bridge"), "ip link add br0 type bridge"),
        (AddLinuxBridge("br0"), "ip link add br0 type bridge forward_delay 0 mcast_snooping 0"),
        (AddVeth(name="a", peer="b"), "ip link add a type veth peer name b"),
        (
            AddVeth(name="a", peer="b", peer_namespace="blue"),
            "ip link add a type veth peer name b netns blue",
        ),
        (DelLink("a"), "ip link delete a"),
        (MoveLink(name="a", namespace="blue"), "ip link set a netns blue"),
        (
            MoveLink(name="a", namespace=Path("/proc/1/ns/net"), new_name="b"),
            "ip link set a netns /proc/1/ns/net name b",
        ),
        (RenameLink("a", "b"), "ip link set a name b"),
        (SetUp("a"), "ip link set a up"),
        (SetUp("a", False), "ip link set a down"),
        (SetMtu("a", 1400), "ip link set a mtu 1400"),
        (SetMac("a", "FA-16-3E-00-00-05"), "ip link set a address fa:16:3e:00:00:05"),
        (SetMaster("a", "br0"), "ip link set a master br0"),
        (SetMaster("a", None), "ip link set a nomaster"),
        (SetChecksumOffload("a", False), "ethtool -K a tx off"),
        (AddAddress(FOUR), "ip address add 10.0.0.2/24 dev e0 scope link noprefixroute"),
        (AddAddress(SIX, replace=True), "ip address replace fd00::2/64 dev e0 nodad"),
        (DelAddress(SIX), "ip address delete fd00::2/64 dev e0"),
        (
            AddRoute(SHARED),
            "ip route add 10.0.0.0/8 metric 5 table 254 src 10.0.0.9"
            " nexthop via 10.0.0.1 dev e0 weight 2 nexthop via 10.0.0.2 weight 1",
        ),
        (
            AddRoute(route("default", via="10.0.0.1", device="e0", onlink=True), replace=True),
            "ip route replace 0.0.0.0/0 via 10.0.0.1 dev e0 onlink table 254",
        ),
        (
            DelRoute(IpRoute(destination="10.0.0.0/8", kind=RouteKind.BLACKHOLE, scope=Scope.LINK)),
            "ip route delete blackhole 10.0.0.0/8 table 254 scope link",
        ),
        (
            AddRule(RULE),
            "ip -4 rule add priority 9 from 10.0.0.0/8 fwmark 0x1/0xff iif e0 oif e1 lookup 7",
        ),
        (
            DelRule(IpRule(priority=1, destination="fd00::/8", action=RuleAction.UNREACHABLE)),
            "ip -6 rule delete priority 1 from all to fd00::/8 unreachable",
        ),
        (
            SetNeighbour(STATIC),
            "ip neighbour replace 10.0.0.5 lladdr fa:16:3e:00:00:05 dev e0 nud permanent",
        ),
        (DelNeighbour(PROXY), "ip neighbour delete proxy fd00::5 dev e0"),
        (SetSysctl("net.ipv4.ip_forward", "1"), "sysctl -w net.ipv4.ip_forward=1"),
    ],
)
def test_an_operation_reads_like_a_command(operation, text):
    assert operation.text == text


HOSTILE = ["", ".", "..", "a/b", "../a", "a b", "a\nb", "a\0b", "x" * 16, "all", "default"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "make",
    [
        lambda name: AddLink(name, "bridge"),
        lambda name: AddVeth(name=name, peer="b"),
        lambda name: AddVeth(name="a", peer=name),
        lambda name: MoveLink(name=name, namespace="blue"),
        lambda name: MoveLink(name="a", namespace="blue", new_name=name),
        lambda name: RenameLink("a", name),
        SetUp,
        lambda name: SetMtu(name, 1400),
        lambda name: SetMaster("a", name),
        lambda name: SetChecksumOffload(name, False),
        lambda name: AddAddress(Address(device=name, interface="10.0.0.1/24")),
        lambda name: AddRoute(route("10.0.0.0/8", device=name)),
        lambda name: AddRule(IpRule(priority=1, iif=name)),
        lambda name: AddRule(IpRule(priority=1, oif=name)),
        lambda name: SetNeighbour(Neighbour(device=name, address="10.0.0.1", proxy=True)),
    ],
)
def test_hostile_device_names_are_refused_when_the_operation_is_made(make, name):
    with pytest.raises(ValueError, match="not a device name"):
        make(name)


@pytest.mark.parametrize("name", ["x;y", "été", "\udcff\udcfe", "-dash"])
def test_removals_accept_names_that_other_programs_gave(name):
    assert DelLink(name).name == name
    assert DelAddress(Address(device=name, interface="10.0.0.1/24")).address.device == name
    assert devices(DelRoute(route("10.0.0.0/8", device=name))) == {name}
    assert devices(DelRule(IpRule(priority=1, iif=name))) == {name}
    assert devices(DelNeighbour(Neighbour(device=name, address="::1", proxy=True))) == {name}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\nb", "x" * 256])
def test_hostile_namespace_names_are_refused(name):
    with pytest.raises(ValueError, match="not a namespace name"):
        MoveLink(name="a", namespace=name)
    with pytest.raises(ValueError, match="not a namespace name"):
        AddVeth(name="a", peer="b", peer_namespace=name)


@pytest.mark.parametrize("name", ["", "..", "net/../../etc", "net..ipv4", "/net", "a b"])
def test_hostile_names_of_parameters_are_refused(name):
    with pytest.raises(ValueError, match="not the name of a kernel parameter"):
        SetSysctl(name, "1")


def test_a_kind_of_device_is_a_word():
    with pytest.raises(ValueError, match="not a kind of device"):
        AddLink("a", "bridge\n")


@pytest.mark.spec("DRV-46")
def test_operations_know_whether_they_mean_anything_without_ipv6():
    six = [
        AddAddress(SIX),
        DelAddress(SIX),
        AddRoute(route("fd00::/8", device="e0")),
        DelRule(IpRule(priority=1, version=6)),
        SetNeighbour(PROXY),
        SetSysctl("net.ipv6.conf.all.forwarding", "1"),
        SetSysctl("net/ipv6/conf/all/forwarding", "1"),
    ]
    four = [
        AddAddress(FOUR),
        AddRoute(SHARED),
        AddRule(RULE),
        SetNeighbour(STATIC),
        SetUp("e0"),
        SetSysctl("net.ipv4.ip_forward", "1"),
    ]
    assert [needs_ipv6(operation) for operation in six] == [True] * len(six)
    assert [needs_ipv6(operation) for operation in four] == [False] * len(four)


def test_operations_know_their_devices():
    assert devices(AddAddress(FOUR)) == {"e0"}
    assert devices(AddRoute(SHARED)) == {"e0"}
    assert devices(DelRule(RULE)) == {"e0", "e1"}
    assert devices(DelNeighbour(PROXY)) == {"e0"}
    assert devices(SetUp("e0")) == frozenset()
