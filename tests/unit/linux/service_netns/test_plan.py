"""What is planned for a station, from what is there."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.linux.ip.values import (
    PROTOCOL_KERNEL,
    Address,
    FoundAddress,
    IpRoute,
    Link,
    NextHop,
    route,
)
from netfw.linux.iptables.mirror import ChainMirror, parse_save
from netfw.linux.iptables.rule import Family
from netfw.linux.service_netns import (
    ObservedNetns,
    ServiceNetns,
    plan_removal,
    plan_service_netns,
    why_without_ipv6,
)
from netfw.linux.service_netns.device_plan import UNASKED
from netfw.linux.service_netns.plan import CHAIN_OWNER, SETTINGS, device_settings
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.plan import Plan, Stage

PORT = PortId(UUID(int=1))
STRANGER = PortId(UUID(int=2))
MAC = "fa:16:3e:00:00:01"
OTHER_MAC = Mac("fa:16:3e:00:00:02")
LOOPBACK = Link(name="lo", index=1, mtu=65536, up=True, state="unknown")
TAP = Link(name="tap1", index=2, kind="tun", mtu=1450, mac=Mac(MAC), up=True, state="unknown")
FILLING = """*mangle
:POSTROUTING ACCEPT [0:0]
:station-checksums - [0:0]
-A POSTROUTING -j station-checksums
-A station-checksums -p udp -m udp --dport 68 -j CHECKSUM --checksum-fill
COMMIT
"""


def station(**rest: Any) -> ServiceNetns:
    values: dict[str, Any] = {
        "netns": "qdhcp-1",
        "port": PORT,
        "device": "tap1",
        "mac": MAC,
        "mtu": 1450,
        "addresses": (ip_interface("10.0.0.2/24"), ip_interface("fd00::2/64")),
        "gateways": (ip_address("10.0.0.1"), ip_address("fd00::1")),
    }
    return ServiceNetns(**(values | rest))


def on(device: str, cidr: str, **rest: Any) -> FoundAddress:
    return FoundAddress(address=Address(device=device, interface=cidr), **rest)


def connected(network: str) -> IpRoute:
    return route(network, device="tap1", protocol=PROTOCOL_KERNEL)


LINK_LOCAL = on("tap1", "fe80::f816:3eff:fe00:1/64", automatic=True)
READY = ObservedNetns(
    netns="qdhcp-1",
    exists=True,
    links={"lo": LOOPBACK, "tap1": TAP},
    addresses=(on("tap1", "10.0.0.2/24"), on("tap1", "fd00::2/64"), LINK_LOCAL),
    routes=(
        connected("10.0.0.0/24"),
        connected("fd00::/64"),
        route("default", via="10.0.0.1", device="tap1"),
        route("default", via="fd00::1", device="tap1"),
    ),
    sysctls={**SETTINGS, **device_settings("tap1")},
    rules=ChainMirror(),
)


def lines_of(stages: tuple[Stage, ...]) -> list[str]:
    assert all(len(stage.operations) == 1 for stage in stages), "a stage is done or not"
    assert all(operation.owners == {"owner"} for operation in Plan(stages))
    return [str(operation).replace("/qdhcp-1", "") for operation in Plan(stages)]


def plan(wanted: ServiceNetns, found: ObservedNetns) -> list[str]:
    return lines_of(plan_service_netns("owner", wanted, found))


def removal(found: ObservedNetns, port: PortId | None = None) -> list[str]:
    return lines_of(plan_removal("owner", found, port))


def test_a_station_that_is_as_wanted_is_left_alone():
    assert plan(station(), READY) == []


def test_unread_parameters_and_rules_are_left_alone():
    unread = evolve(READY, sysctls={}, rules=None, devices_only=True)
    assert plan(station(fill_checksums=True), unread) == []
    moved = station(addresses=(ip_interface("10.0.0.3/24"), ip_interface("fd00::2/64")))
    changes = plan(moved, evolve(READY, sysctls={}, rules=None, devices_only=True))
    assert changes == plan(moved, READY)


def test_a_new_station_is_made_from_the_bottom_up():
    assert plan(station(fill_checksums=True), ObservedNetns(netns="qdhcp-1")) == [
        "netns: ip netns add qdhcp-1",
        "network: sysctl -w net.ipv4.conf.all.promote_secondaries=1",
        "network: sysctl -w net.ipv6.conf.default.disable_ipv6=0",
        "network: sysctl -w net.ipv6.conf.default.accept_ra=0",
        "network: sysctl -w net.ipv6.conf.default.accept_dad=0",
        "network: sysctl -w net.ipv6.conf.default.addr_gen_mode=0",
        f"interface: plug tap1 of port {PORT} into qdhcp-1, {MAC} mtu 1450",
        "network: ip address replace 10.0.0.2/24 dev tap1",
        "network: ip address replace fd00::2/64 dev tap1 nodad",
        "network: ip route replace 0.0.0.0/0 via 10.0.0.1 dev tap1 table 254",
        "network: ip route replace ::/0 via fd00::1 dev tap1 metric 1024 table 254",
        "iptables: hook IPv4 mangle chain checksums into POSTROUTING; "
        "put IPv4 mangle chain checksums: 1 rule",
    ]


def test_another_namespace_than_the_one_looked_at_is_a_mistake():
    with pytest.raises(ValueError, match="qdhcp-2 is wanted, and qdhcp-1 was looked at"):
        plan_service_netns("owner", station(netns="qdhcp-2"), READY)


def test_two_gateways_of_a_family_are_a_mistake():
    with pytest.raises(ValueError, match=r"one gateway of each family, not 10\.0\.0\.1, 10\.0"):
        station(gateways=(ip_address("10.0.0.1"), ip_address("10.0.0.3")))


@pytest.mark.parametrize("wrong", [{"mtu": 20}, {"device": "far-too-long-a-name"}, {"netns": "/"}])
def test_what_no_interface_driver_could_take_is_a_mistake(wrong):
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        station(**wrong)


def test_a_device_that_is_down_is_brought_up_without_the_interface_driver():
    down = evolve(READY, links={"lo": LOOPBACK, "tap1": evolve(TAP, up=False, carrier=False)})
    assert plan(station(), down) == ["network: ip link set tap1 up"]


def test_the_loopback_is_brought_up_again():
    down = evolve(READY, links={"lo": evolve(LOOPBACK, up=False), "tap1": TAP})
    assert plan(station(), down) == ["network: ip link set lo up"]


@pytest.mark.parametrize("change", [{"mac": OTHER_MAC}, {"mtu": 1500}])
def test_a_wrong_device_is_plugged_and_everything_on_it_put_again(change):
    wrong = evolve(READY, links={"lo": LOOPBACK, "tap1": evolve(TAP, **change)})
    assert plan(station(), wrong) == [
        f"interface: plug tap1 of port {PORT} into qdhcp-1, {MAC} mtu 1450",
        "network: ip address replace 10.0.0.2/24 dev tap1",
        "network: ip address replace fd00::2/64 dev tap1 nodad",
        "network: ip route replace 0.0.0.0/0 via 10.0.0.1 dev tap1 table 254",
        "network: ip route replace ::/0 via fd00::1 dev tap1 metric 1024 table 254",
    ]


@pytest.mark.parametrize(
    ("held", "plugged"), [(frozenset({PORT}), True), (frozenset(), False), (None, False)]
)
def test_a_device_that_lost_its_switch_is_plugged_if_the_interface_driver_has_it(held, plugged):
    dead = evolve(TAP, carrier=False)
    found = evolve(READY, links={"lo": LOOPBACK, "tap1": dead}, present=held)
    assert any(line.startswith("interface: plug") for line in plan(station(), found)) is plugged
    assert bool(plan(station(), found)) is plugged


def test_devices_of_others_go_first_and_those_of_the_kernel_stay():
    others = {
        name: evolve(TAP, name=name, mac=OTHER_MAC) for name in ("tap0", "tap2", *sorted(UNASKED))
    }
    found = evolve(READY, links={"lo": LOOPBACK, **others, "tap1": evolve(TAP, up=False)})
    assert plan(station(), found) == [
        "interface: unplug tap0 from qdhcp-1",
        "interface: unplug tap2 from qdhcp-1",
        "network: ip link set tap1 up",
    ]


def test_addresses_become_those_that_are_wanted_and_routes_are_put_again():
    found = evolve(
        READY,
        addresses=(
            on("tap1", "10.0.0.2/16"),
            on("tap1", "10.0.0.9/24"),
            on("tap1", "10.0.0.7/24", permanent=False),
            on("lo", "127.0.0.1/8"),
            on("tap1", "fd00::2/64"),
            LINK_LOCAL,
        ),
    )
    assert plan(station(forget_connections=True), found) == [
        "network: ip address delete 10.0.0.2/16 dev tap1",
        "network: ip address delete 10.0.0.9/24 dev tap1, and forget the connections of 10.0.0.9",
        "network: ip address add 10.0.0.2/24 dev tap1",
        "network: ip route replace 0.0.0.0/0 via 10.0.0.1 dev tap1 table 254",
        "network: ip route replace ::/0 via fd00::1 dev tap1 metric 1024 table 254",
    ]
    assert not any("forget" in line for line in plan(station(), found))


FAR = (ip_address("192.0.2.1"), ip_address("2001:db8::1"))


def test_a_gateway_outside_every_network_is_made_known_to_be_on_the_link():
    assert plan(station(gateways=FAR), READY) == [
        "network: ip route add 192.0.2.1/32 dev tap1 table 254",
        "network: ip route add 2001:db8::1/128 dev tap1 metric 1024 table 254",
        "network: ip route replace 0.0.0.0/0 via 192.0.2.1 dev tap1 table 254",
        "network: ip route replace ::/0 via 2001:db8::1 dev tap1 metric 1024 table 254",
    ]


def test_a_link_local_gateway_is_on_the_link_anyway():
    wanted = station(gateways=(ip_address("10.0.0.1"), ip_address("fe80::1")))
    assert plan(wanted, READY) == [
        "network: ip route replace ::/0 via fe80::1 dev tap1 metric 1024 table 254"
    ]


def test_routes_of_vanished_gateways_go_and_those_of_others_stay():
    onlink = tuple(route(f"{far}/{far.max_prefixlen}", device="tap1") for far in FAR)
    others = (
        route("192.0.2.7/32", device="tap1", protocol=PROTOCOL_KERNEL),
        route("192.0.2.8/32", device="lo"),
        route("192.0.2.9/32", via="10.0.0.9", device="tap1"),
        route("198.51.100.0/24", device="tap1"),
    )
    found = evolve(READY, routes=(*READY.routes, *onlink, *others))
    gone = [
        "network: ip route delete 192.0.2.1/32 dev tap1 table 254",
        "network: ip route delete 2001:db8::1/128 dev tap1 metric 1024 table 254",
    ]
    assert plan(station(), found) == gone
    assert plan(station(gateways=()), found) == [
        "network: ip route delete 0.0.0.0/0 via 10.0.0.1 dev tap1 table 254",
        "network: ip route delete ::/0 via fd00::1 dev tap1 metric 1024 table 254",
        *gone,
    ]


def test_every_other_default_route_is_removed_whatever_its_origin():
    learnt = IpRoute(
        destination="::/0", hops=(NextHop(via="fe80::9", device="tap1"),), metric=512, protocol=9
    )
    found = evolve(READY, routes=(*READY.routes, learnt))
    assert plan(station(), found) == [
        "network: ip route delete ::/0 via fe80::9 dev tap1 metric 512 table 254"
    ]


def test_a_station_that_is_the_gateway_itself_has_no_way_out():
    wanted = station(addresses=(ip_interface("10.0.0.1/24"),), gateways=(ip_address("10.0.0.1"),))
    assert not any("route replace" in line for line in plan(wanted, READY))


def test_checksums_are_filled_when_asked_and_only_then():
    filling = evolve(READY, rules=parse_save(FILLING, Family.IPV4, CHAIN_OWNER))
    assert plan(station(fill_checksums=True), filling) == []
    assert plan(station(), filling) == [
        "iptables: unhook IPv4 mangle chain checksums from POSTROUTING; "
        "drop IPv4 mangle chain checksums"
    ]
    unhooked = FILLING.replace("-A POSTROUTING -j station-checksums\n", "")
    found = evolve(READY, rules=parse_save(unhooked, Family.IPV4, CHAIN_OWNER))
    assert plan(station(fill_checksums=True), found) == [
        "iptables: hook IPv4 mangle chain checksums into POSTROUTING"
    ]


def test_unreadable_rules_matter_only_where_a_rule_is_desired():
    unknown = evolve(READY, rules=None)
    assert plan(station(), unknown) == []
    assert [line.split(":")[0] for line in plan(station(fill_checksums=True), unknown)] == [
        "iptables"
    ]


def test_changed_settings_are_set_again():
    found = evolve(READY, sysctls=dict.fromkeys(READY.sysctls, "9"))
    assert plan(station(), found) == [
        f"network: sysctl -w {name}={value}" for name, value in READY.sysctls.items()
    ]


def test_removed_link_local_address_is_created_again():
    taken = evolve(READY, addresses=READY.addresses[:2])
    parameter = "network: sysctl -w net/ipv6/conf/tap1/addr_gen_mode"
    assert plan(station(), taken) == [f"{parameter}=1", f"{parameter}=0"]
    halfway = evolve(taken, sysctls={**READY.sysctls, "net/ipv6/conf/tap1/addr_gen_mode": "1"})
    assert plan(station(), halfway) == [f"{parameter}=0"]


@pytest.mark.parametrize(
    "link",
    [
        evolve(TAP, carrier=False),
        evolve(TAP, kind="veth"),
        evolve(TAP, state="lowerlayerdown"),
    ],
)
def test_a_link_local_address_that_the_kernel_has_yet_to_make_is_waited_for(link):
    early = evolve(READY, addresses=READY.addresses[:2], links={"lo": LOOPBACK, "tap1": link})
    assert plan(station(), early) == []


def test_without_ipv6_there_is_ipv4_and_a_reason():
    four = {name: value for name, value in SETTINGS.items() if ".ipv4." in name}
    found = evolve(
        READY,
        no_ipv6="this kernel has no IPv6",
        sysctls=four,
        addresses=READY.addresses[:1],
        routes=tuple(entry for entry in READY.routes if entry.destination.version == 4),
    )
    assert plan(station(), found) == []
    assert why_without_ipv6(station(), found) == "this kernel has no IPv6"


def test_where_ipv6_was_switched_off_as_a_whole_it_stays_off():
    off = {name: "1" if "disable" in name else value for name, value in READY.sysctls.items()}
    found = evolve(
        READY,
        no_ipv6="IPv6 is switched off here",
        sysctls=off,
        addresses=READY.addresses[:1],
        routes=tuple(entry for entry in READY.routes if entry.destination.version == 4),
    )
    assert plan(station(), found) == []
    assert any("disable_ipv6=0" in line for line in plan(station(), evolve(found, no_ipv6=None)))


def test_below_the_least_mtu_of_ipv6_there_is_ipv4_and_a_reason():
    small = station(mtu=1279)
    found = ObservedNetns(netns="qdhcp-1")
    assert "IPv6 needs an MTU of 1280" in (why_without_ipv6(small, found) or "")
    assert not any("fd00" in line for line in plan(small, found))
    assert why_without_ipv6(station(mtu=1280), found) is None


def test_removal_takes_the_devices_and_then_the_namespace():
    assert removal(READY) == [
        "interface: unplug tap1 from qdhcp-1",
        "netns: ip netns delete qdhcp-1",
    ]
    assert removal(READY, PORT)[0] == f"interface: unplug port {PORT}"


def test_nothing_is_removed_twice():
    gone = ObservedNetns(netns="qdhcp-1", present=frozenset({STRANGER}))
    assert removal(gone) == removal(gone, PORT) == []


def test_a_port_whose_namespace_is_gone_is_removed_all_the_same():
    left = ObservedNetns(netns="qdhcp-1", present=frozenset({PORT}))
    assert removal(left, PORT) == [f"interface: unplug port {PORT}"]
    unknown = ObservedNetns(netns="qdhcp-1", present=None)
    assert removal(unknown, PORT) == [f"interface: unplug port {PORT}"]
