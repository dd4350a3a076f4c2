"""Plans of router namespaces.  Values only."""

from __future__ import annotations

from ipaddress import ip_interface
from uuid import UUID

import pytest
from attrs import evolve

from netfw.linux.ip.values import Address, FoundAddress, IpRoute, IpRule, Link, route
from netfw.linux.iptables import DROP, Chain, ChainKey, IptablesRule
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.operations import HookPoint
from netfw.linux.iptables.rule import Family
from netfw.linux.router_netns import (
    NetnsLink,
    NetnsPort,
    RouterNetns,
    plan_router_netns,
    plan_router_removal,
)
from netfw.linux.router_netns.plan import KERNEL_RULES
from netfw.linux.service_netns.steps import ChangeNetwork, Clear
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.ids import PortId
from netfw.plan import Stage

NAME = "qrouter-1"
PORT = PortId(UUID(int=1))
SCOPE = ChainKey(family=4, table="filter", name="scope")
FIP = ip_interface("203.0.113.9/32")
GATEWAY = NetnsPort(
    port=PORT,
    device="qg-1",
    mac="fa:16:3e:00:00:01",
    mtu=1450,
    addresses=(ip_interface("203.0.113.5/24"), FIP),
    settings={"ipv4/rp_filter": "0"},
    owners={FIP: "fip"},
)
ROUTER = RouterNetns(
    netns=NAME,
    ports=(GATEWAY,),
    routes=(route("default", via="203.0.113.1", device="qg-1"),),
    policy_rules=(IpRule(priority=100, source="10.0.0.0/24", table=16),),
    sysctls={"net.ipv4.ip_forward": "1"},
    chains={SCOPE: Chain((IptablesRule(target=DROP),), frozenset({"FORWARD"}))},
)
READY = ObservedNetns(
    netns=NAME,
    exists=True,
    links={
        "lo": Link(name="lo", index=1, mtu=65536, up=True, state="unknown"),
        "qg-1": Link(name="qg-1", index=2, mtu=1450, mac=GATEWAY.mac, up=True, state="up"),
    },
    addresses=tuple(
        FoundAddress(address=Address(device="qg-1", interface=interface))
        for interface in GATEWAY.addresses
    ),
    routes=ROUTER.routes,
    policy_rules=(*KERNEL_RULES, *ROUTER.policy_rules),
    sysctls={
        "net.ipv4.conf.all.promote_secondaries": "1",
        "net.ipv4.ip_forward": "1",
        "net/ipv4/conf/qg-1/rp_filter": "0",
    },
    rules=ChainMirror(
        {SCOPE: ("-j DROP",)}, {HookPoint(Family.IPV4, "filter", "FORWARD"): ("-j l3-scope",)}
    ),
)


def stages(wanted: RouterNetns = ROUTER, found: ObservedNetns = READY) -> tuple[Stage, ...]:
    return plan_router_netns("router", wanted, found, "l3")


def texts(wanted: RouterNetns = ROUTER, found: ObservedNetns = READY) -> list[str]:
    return [each.text for stage in stages(wanted, found) for each in stage.operations]


def test_an_unchanged_router_yields_no_stage():
    assert stages() == ()


def test_a_new_router_has_filters_before_devices_and_devices_before_addresses():
    assert texts(found=ObservedNetns(netns=NAME)) == [
        "ip netns add qrouter-1",
        "sysctl -w net.ipv4.conf.all.promote_secondaries=1",
        "sysctl -w net.ipv4.ip_forward=1",
        "hook IPv4 filter chain scope into FORWARD; put IPv4 filter chain scope: 1 rule",
        f"plug qg-1 of port {PORT} into qrouter-1, fa:16:3e:00:00:01 mtu 1450",
        "sysctl -w net/ipv4/conf/qg-1/rp_filter=0",
        "ip address replace 203.0.113.5/24 dev qg-1",
        "ip address replace 203.0.113.9/32 dev qg-1",
        "ip route add 0.0.0.0/0 via 203.0.113.1 dev qg-1 table 254",
        "ip -4 rule add priority 100 from 10.0.0.0/24 lookup 16",
    ]


def test_changes_of_the_network_that_follow_each_other_are_one_stage():
    counts = [len(stage.operations) for stage in stages(found=ObservedNetns(netns=NAME))]
    assert counts == [1, 2, 1, 1, 5]


def test_an_address_that_is_added_belongs_to_its_owner():
    without = evolve(READY, addresses=READY.addresses[:1])
    (stage,) = stages(found=without)
    assert [(each.text, each.owners) for each in stage.operations] == [
        ("ip address add 203.0.113.9/32 dev qg-1", {"fip"})
    ]


@pytest.mark.spec("L3-22")
def test_network_address_is_replaced_before_it_is_removed_and_its_routes_are_renewed():
    moved = evolve(GATEWAY, addresses=(ip_interface("203.0.113.6/24"), FIP))
    assert texts(evolve(ROUTER, ports=(moved,))) == [
        "ip address add 203.0.113.6/24 dev qg-1",
        "ip address delete 203.0.113.5/24 dev qg-1, and forget the connections of 203.0.113.5",
        "ip route replace 0.0.0.0/0 via 203.0.113.1 dev qg-1 table 254",
    ]


@pytest.mark.spec("L3-24")
def test_single_address_is_removed_with_its_connections_after_the_filters():
    # A driver that is killed in between leaves the address, and so the next plan removes both.
    wanted = evolve(ROUTER, ports=(evolve(GATEWAY, addresses=GATEWAY.addresses[:1]),), chains={})
    assert texts(wanted) == [
        "unhook IPv4 filter chain scope from FORWARD; drop IPv4 filter chain scope",
        "ip address delete 203.0.113.9/32 dev qg-1, and forget the connections of 203.0.113.9",
    ]
    kept = texts(evolve(wanted, forget_connections=False))
    assert kept == [
        "unhook IPv4 filter chain scope from FORWARD; drop IPv4 filter chain scope",
        "ip address delete 203.0.113.9/32 dev qg-1",
    ]


def test_routes_of_a_device_that_is_removed_are_removed_before_it():
    assert texts(evolve(ROUTER, ports=(), routes=())) == [
        "ip route delete 0.0.0.0/0 via 203.0.113.1 dev qg-1 table 254",
        "ip address delete 203.0.113.5/24 dev qg-1, and forget the connections of 203.0.113.5",
        "ip address delete 203.0.113.9/32 dev qg-1, and forget the connections of 203.0.113.9",
        "unplug qg-1 from qrouter-1",
    ]


def test_removal_takes_ports_devices_and_namespace():
    removal = plan_router_removal("router", evolve(READY, present=frozenset({PORT})), [PORT])
    assert [stage.operations[0].text for stage in removal] == [
        f"unplug port {PORT}",
        "unplug qg-1 from qrouter-1",
        "ip netns delete qrouter-1",
    ]
    gone = ObservedNetns(netns=NAME, present=frozenset())
    assert plan_router_removal("router", gone, [PORT]) == ()


def test_another_namespace_is_refused():
    with pytest.raises(ValueError, match="qrouter-2 was observed"):
        stages(found=ObservedNetns(netns="qrouter-2"))


def test_connections_of_a_gateway_that_is_replaced_end_before_its_device_is_cleared():
    address = ip_interface("198.51.100.5/24")
    other = evolve(
        GATEWAY, port=PortId(UUID(int=2)), device="qg-2", addresses=(address,), owners={}
    )
    replaced = evolve(ROUTER, ports=(other,), routes=())
    steps = [each.payload for stage in stages(replaced) for each in stage.operations]
    forgotten = [step.forget for step in steps if isinstance(step, ChangeNetwork) and step.forget]
    assert forgotten == [interface.ip for interface in GATEWAY.addresses]
    last = max(index for index, step in enumerate(steps) if getattr(step, "forget", None))
    assert last < next(index for index, step in enumerate(steps) if isinstance(step, Clear))


INSIDE = ip_interface("fd00::1/64")
WITH_IPV6 = evolve(ROUTER, ports=(evolve(GATEWAY, addresses=(*GATEWAY.addresses, INSIDE)),))
READY_IPV6 = evolve(
    READY,
    addresses=(
        *READY.addresses,
        FoundAddress(address=Address(device="qg-1", interface=INSIDE, nodad=True)),
    ),
)


def with_routes(before: list[IpRoute], after: list[IpRoute]) -> list[str]:
    wanted = evolve(WITH_IPV6, routes=(*ROUTER.routes, *after))
    found = evolve(READY_IPV6, routes=(*ROUTER.routes, *before))
    return texts(wanted, found)


@pytest.mark.spec("L3-25")
def test_an_old_route_that_hides_the_next_hop_of_a_new_one_is_removed_first():
    hiding = route("fd00::20/128", via="fd00::20", device="qg-1", onlink=True)
    new = route("2001:db8::/48", via="fd00::20", device="qg-1")
    assert with_routes([hiding], [new]) == [
        "ip route delete fd00::20/128 via fd00::20 dev qg-1 onlink metric 1024 table 254",
        "ip route add 2001:db8::/48 via fd00::20 dev qg-1 metric 1024 table 254",
    ]
    changed = route("fd00::20/128", via="fd00::21", device="qg-1")
    assert with_routes([hiding], [new, changed]) == [
        "ip route delete fd00::20/128 via fd00::20 dev qg-1 onlink metric 1024 table 254",
        "ip route add 2001:db8::/48 via fd00::20 dev qg-1 metric 1024 table 254",
        "ip route add fd00::20/128 via fd00::21 dev qg-1 metric 1024 table 254",
    ]


@pytest.mark.parametrize("old", ["fd00::/16", "fd00::40/128"])
def test_an_old_route_that_hides_no_next_hop_is_removed_last(old: str):
    stale = route(old, via="fd00::30", device="qg-1")
    new = route("2001:db8::/48", via="fd00::20", device="qg-1")
    assert with_routes([stale], [new]) == [
        "ip route add 2001:db8::/48 via fd00::20 dev qg-1 metric 1024 table 254",
        f"ip route delete {old} via fd00::30 dev qg-1 metric 1024 table 254",
    ]


LINK = NetnsLink(
    device="rfp-1",
    mtu=1450,
    addresses=(ip_interface("169.254.64.0/31"),),
    settings={"ipv6/disable_ipv6": "1", "ipv4/neigh/proxy_delay": "0"},
    peer="fpr-1",
    peer_netns="fip-1",
)
LINKED = evolve(ROUTER, links=(LINK,))


def test_a_link_is_a_pair_of_two_namespaces() -> None:
    assert texts(LINKED) == [
        "ip link add rfp-1 type veth peer name fpr-1 netns fip-1",
        "ip link set rfp-1 mtu 1450",
        "sysctl -w net/ipv6/conf/rfp-1/disable_ipv6=1",
        "sysctl -w net/ipv4/neigh/rfp-1/proxy_delay=0",
        "ip link set rfp-1 up",
        "ip address replace 169.254.64.0/31 dev rfp-1",
    ]
    assert len(stages(LINKED)) == 1
    assert texts(ROUTER, linked()) == [
        "ip address delete 169.254.64.0/31 dev rfp-1, and forget the connections of 169.254.64.0",
        "unplug rfp-1 from qrouter-1",
    ]


def linked(mtu: int = 1450) -> ObservedNetns:
    """Return the namespace with the link."""
    link = Link(name="rfp-1", index=3, mtu=mtu, up=True, state="up", kind="veth")
    address = Address(device="rfp-1", interface=LINK.addresses[0])
    return evolve(
        READY,
        links={**READY.links, "rfp-1": link},
        addresses=(*READY.addresses, FoundAddress(address=address)),
        sysctls={**READY.sysctls, **LINK.sysctls},
    )


def test_a_link_changes_in_place() -> None:
    assert not stages(LINKED, linked())
    assert texts(LINKED, linked(mtu=1500)) == ["ip link set rfp-1 mtu 1450"]


def test_a_broken_link_is_removed_on_both_sides_first() -> None:
    broken = evolve(LINKED, links=(evolve(LINK, is_broken=True),))
    made = stages(broken, linked())
    assert texts(broken, linked())[:3] == [
        "ip link delete fpr-1",
        "ip link delete rfp-1",
        "ip link add rfp-1 type veth peer name fpr-1 netns fip-1",
    ]
    step = made[0].operations[0].payload
    assert isinstance(step, ChangeNetwork)
    assert step.netns == "fip-1"
    assert len(made) == 2  # one namespace each


def test_devices_of_others_stay_with_their_addresses_and_routes() -> None:
    others = evolve(linked(), routes=(*READY.routes, route("203.0.113.7/32", device="rfp-1")))
    assert not stages(evolve(ROUTER, kept_prefix="rfp-"), others)
    assert len(texts(evolve(ROUTER, kept_prefix="other-"), others)) == 3
