"""Router namespaces on a real kernel and switch."""

from __future__ import annotations

import subprocess
from ipaddress import ip_interface

import pytest
from attrs import evolve, field, frozen

from netfw.errors import OperationRefused
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.ip.operations import DelAddress
from netfw.linux.ip.values import Address, route
from netfw.linux.iptables import DROP, Chain, Family, IptablesBinaries, IptablesRule, target
from netfw.linux.netns import Namespace
from netfw.linux.router_netns import (
    RouterNetns,
    RouterNetnsExecutor,
    plan_router_removal,
)
from netfw.linux.service_netns import DriftMonitor
from netfw.linux.service_netns.netns_executor import changing_network
from netfw.linux.service_netns.steps import ChangeNetwork
from netfw.plan import Operation, Stage
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.router_netns.samples import (
    DNAT,
    FIP,
    NAME,
    OWNER,
    PORTS,
    QG,
    QR1,
    QR2,
    ROUTER,
    SCOPE,
    chains,
    converge,
    has_link_local,
    ip,
    plan,
    shell,
)


@frozen
class CountingTool(IptablesBinaries):
    """The binaries, and the families that they have read in the namespace of the router."""

    reads: list[Family] = field(factory=list)

    def save(self, family: Family, namespace: Namespace, table: str = "") -> str:
        self.reads.extend([family] if namespace == NAME else [])
        return super().save(family, namespace, table)


@pytest.mark.spec("L3-20", "L3-22", "L3-25")
def test_a_router_is_made_and_an_unchanged_one_needs_nothing(executor, interface):
    converge(executor)
    assert plan(executor) == ()
    assert plan(RouterNetnsExecutor(interface, "l3")) == ()  # after a restart
    assert executor.plan(ROUTER) == ()
    (ecmp,) = ip("route", "show", "10.9.0.0/16")
    assert [hop["gateway"] for hop in ecmp["nexthops"]] == ["10.0.0.7", "10.0.2.7"]
    (onlink,) = ip("route", "show", "10.8.0.0/16")
    assert onlink["flags"] == ["onlink"]
    assert ip("route", "show", "table", "16")[0]["gateway"] == "10.0.0.8"
    assert sysctl.read("net.ipv4.ip_forward", NAME) == "1"


@pytest.mark.parametrize(
    "damage",
    [
        f"ip address delete 10.0.1.1/24 dev {QR1.device}",
        f"ip address delete 2001:db8::5/64 dev {QG.device}",
        f"ip address add 10.99.0.1/24 dev {QR1.device}",
        "ip route delete default",
        "ip route delete 10.9.0.0/16",
        "ip -6 route delete fd09::/64",
        "ip route delete 10.0.1.0/24",
        "ip route flush table main",
        "ip -6 route flush table main",
        f"ip -6 route delete fe80::/64 dev {QR1.device}",
        "ip route flush table 16",
        "ip route add 10.77.0.0/16 via 10.0.0.77 table 77",
        "ip rule delete priority 32768",
        "ip -6 rule add from fd00:9::/64 lookup 1000 priority 5",
        f"ip link set {QR2.device} down",
        "ip link add stray type bridge",
        "sysctl -w net.ipv4.ip_forward=0",
        f"sysctl -w net.ipv4.conf.{QR1.device}.rp_filter=1",
        f"sysctl -w net.ipv6.conf.{QR2.device}.disable_ipv6=1",
        "iptables -t nat -F l3-dnat",
        "iptables -t filter -D FORWARD -j l3-scope",
        "ip6tables -F l3-scope",
        "iptables -t nat -N l3-garbage",
        f"ip -6 address flush dev {QR1.device} scope link",
    ],
)
@pytest.mark.spec("L3-21")
def test_damage_by_hand_is_repaired(executor, damage):
    converge(executor)
    wait_until(lambda: has_link_local(QR1) and has_link_local(QR2))
    before, routed = ip("rule", "show"), destinations()
    shell(damage)
    assert plan(executor) != ()
    converge(executor)
    wait_until(lambda: plan(executor) == ())
    assert ip("rule", "show") == before
    wait_until(lambda: destinations() == routed)


def destinations():
    """Return where the routes of the main table lead to, and the device of each."""
    routes = [*ip("-4", "route", "show"), *ip("-6", "route", "show")]
    return {(each["dst"], each.get("dev")) for each in routes}


@pytest.mark.spec("L3-31")
def test_removal_leaves_nothing(executor, interface):
    converge(executor)
    for stage in plan_router_removal(OWNER, executor.observe(NAME)):
        executor.apply(stage)
    assert not netns.exists(NAME)
    assert interface.present() == frozenset()
    assert plan_router_removal(OWNER, executor.observe(NAME), PORTS) == ()
    assert executor._filters == {}


class Killed(Exception):
    pass


@pytest.mark.spec("L3-24")
def test_each_stage_leaves_a_state_that_the_next_plan_repairs(executor, interface):
    count = len(plan(executor))
    changed = evolve(
        ROUTER,
        ports=(
            evolve(QR1, addresses=QR1.addresses[:1]),
            evolve(QG, addresses=tuple(map(ip_interface, ("203.0.113.6/24", "203.0.113.7/32")))),
        ),
        routes=(route("default", via="203.0.113.1", device=QG.device),),
        policy_rules=(),
        chains={SCOPE: Chain((IptablesRule(target=DROP),), frozenset({"FORWARD"}))},
    )
    for goal, other in ((ROUTER, changed), (changed, ROUTER)):
        for last in range(count + 2):
            converge(executor, other)
            left = [last]

            def die(_: Stage, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed

            try:
                converge(executor, goal, die)
            except Killed:
                successor = RouterNetnsExecutor(interface, "l3")
                converge(successor, goal)
                assert plan(successor, goal) == ()


@pytest.mark.spec("L3-24")
def test_rules_of_a_floating_ip_are_added_and_removed_before_its_address(executor):
    without = evolve(
        ROUTER,
        ports=(QR1, QR2, evolve(QG, addresses=QG.addresses[:2])),
        chains={key: chain for key, chain in chains().items() if key != DNAT},
    )
    converge(executor, without)
    texts = [stage.operations[0].text for stage in plan(executor)]
    assert [text.split()[0] for text in texts] == ["put", "ip"] or "hook" in texts[0]
    assert texts[-1].startswith(f"ip address add {FIP}")
    converge(executor)
    backends = [stage.backend for stage in plan(executor, without)]
    assert backends == [f"iptables/{NAME}", f"network/{NAME}"]


def test_one_more_floating_ip_costs_an_address_and_a_rule(executor):
    many = tuple(ip_interface(f"203.0.113.{n}/32") for n in range(50, 150))
    rules = [
        IptablesRule(destination=each.network, target=target("DNAT", to_destination="10.0.0.5"))
        for each in many
    ]

    def router(count: int) -> RouterNetns:
        own = evolve(QG, addresses=(*QG.addresses, *many[:count]))
        return evolve(ROUTER, ports=(QR1, QR2, own), chains=chains(*rules[:count]))

    converge(executor, router(99))
    assert converge(executor, router(100)) == [
        "edit IPv4 nat chain dnat: 1 in, 0 out of 101 rules",
        f"ip address add {many[99]} dev {QG.device}",
    ]
    assert plan(executor, router(100)) == ()


@pytest.mark.spec("L3-30")
def test_refused_rule_fails_its_owner_and_the_former_rules_stay(executor):
    converge(executor)
    bad = IptablesRule(
        target=target("DNAT", to_destination="999.1.1.1"), protocol="tcp", owner="bad fip"
    )
    wanted = evolve(ROUTER, chains=chains(bad, fixed="10.0.0.6"))
    with pytest.raises(OperationRefused) as refusal:
        converge(executor, wanted)
    (operation,) = refusal.value.reasons
    assert isinstance(operation, Operation)
    assert operation.owners == {"bad fip"}
    assert plan(executor) == ()
    good = evolve(ROUTER, chains=chains(fixed="10.0.0.6"))
    converge(executor, good)
    assert plan(executor, good) == ()


def test_refused_address_fails_its_owner(executor):
    multicast = ip_interface("ff02::5/128")
    bad = evolve(QG, addresses=(*QG.addresses, multicast), owners={multicast: "bad fip"})
    with pytest.raises(OperationRefused) as refusal:
        converge(executor, evolve(ROUTER, ports=(QR1, QR2, bad)))
    (operation,) = refusal.value.reasons
    assert isinstance(operation, Operation)
    assert operation.owners == {"bad fip"}


@pytest.mark.spec("L3-22")
def test_gateway_address_changes_in_place_without_losing_its_routes(executor):
    converge(executor)
    moved = evolve(QG, addresses=(ip_interface("203.0.113.6/24"), *QG.addresses[1:]))
    texts = converge(executor, evolve(ROUTER, ports=(QR1, QR2, moved)))
    added = texts.index(f"ip address add 203.0.113.6/24 dev {QG.device}")
    assert added < texts.index(
        f"ip address delete 203.0.113.5/24 dev {QG.device}, and forget the connections of "
        "203.0.113.5"
    )
    assert plan(executor, evolve(ROUTER, ports=(QR1, QR2, moved))) == ()


def test_a_router_on_ports_with_a_small_mtu_is_served_ipv4(executor):
    small = evolve(ROUTER, ports=tuple(evolve(each, mtu=1000) for each in ROUTER.ports))
    converge(executor, small)
    assert plan(executor, small) == ()
    assert ip("route", "show", "default")[0]["gateway"] == "203.0.113.1"


@pytest.mark.parametrize(
    "damage",
    [
        "ip rule delete priority 32768",
        "iptables -t nat -D l3-dnat 1",
        "iptables -t nat -F PREROUTING",
        "ip6tables -F l3-scope",
    ],
)
def test_drift_of_rules_is_reported_and_repaired(executor, damage):
    converge(executor)
    reports: list[str] = []
    monitor = DriftMonitor(executor, reports.append)
    try:
        monitor.watch(ROUTER)
        shell(damage)
        wait_until(lambda: reports == [NAME])
    finally:
        monitor.close()
    for stage in executor.plan(ROUTER):
        executor.apply(stage)
    assert plan(executor) == ()


def test_rules_are_read_again_only_after_a_change_by_another_program(interface):
    tool = CountingTool()
    executor = RouterNetnsExecutor(interface, "l3", tool=tool)
    converge(executor)
    assert executor.plan(ROUTER) == ()
    assert tool.reads == [], "a new namespace has no rules but those that were written"
    moved = evolve(ROUTER, chains=chains(fixed="10.0.0.6"))
    converge(executor, moved)
    before = len(tool.reads)
    assert executor.plan(moved) == ()
    assert len(tool.reads) == before, "the mirror has what was written"
    shell("iptables -t nat -N foreign")
    assert executor.plan(moved) == ()
    assert executor.plan(moved) == ()
    assert tool.reads[before:] == [Family.IPV4, Family.IPV6]


def test_rules_are_read_again_if_another_program_changed_them_while_they_were_written(executor):
    converge(executor)
    moved = evolve(ROUTER, chains=chains(fixed="10.0.0.6"))
    stages = plan(executor, moved)
    shell("iptables -t nat -F l3-snat")
    for stage in stages:
        executor.apply(stage)
    (stage,) = executor.plan(moved)
    assert "put IPv4 nat chain snat" in stage.operations[0].text


@pytest.mark.spec("L3-22")
def test_routes_of_a_device_survive_its_last_ipv4_address(executor):
    # The kernel removes them with it; a gateway may have IPv6 addresses and a floating IP only.
    only = evolve(QG, addresses=tuple(map(ip_interface, ("2001:db8::5/64", "203.0.113.9/32"))))
    six = (route("default", via="2001:db8::1", device=QG.device),)
    link = (route("198.51.100.0/24", device=QG.device),)
    router = evolve(ROUTER, ports=(QR1, QR2, only), routes=(*six, *link), policy_rules=())
    converge(executor, router)
    without = evolve(router, ports=(QR1, QR2, evolve(only, addresses=only.addresses[:1])))
    converge(executor, without)
    assert ip("route", "show", "198.51.100.0/24"), "the route went with the address"
    assert plan(executor, without) == ()
    converge(executor, router)
    other = evolve(only, addresses=(only.addresses[0], ip_interface("203.0.113.10/32")))
    replaced = evolve(router, ports=(QR1, QR2, other))
    converge(executor, replaced)
    assert plan(executor, replaced) == ()


def connect(address: str) -> None:
    """Make a tracked connection of an address."""
    entry = f"-s 198.51.100.9 -d {address} -r {address} -q 198.51.100.9"
    ports = "--sport 5000 --dport 53 --reply-port-src 53 --reply-port-dst 5000"
    shell(f"conntrack -I -p udp -t 600 {entry} {ports}")


def connections(address: str) -> int:
    command = f"conntrack -L -d {address} | grep -c {address} || true"
    return int(netns.run_in(NAME, subprocess.check_output, command, shell=True, text=True))


@pytest.mark.spec("L3-22")
def test_connections_that_begin_while_their_address_is_removed_end_too(executor):
    converge(executor)
    connect(str(FIP.ip))
    address = Address(device=QG.device, interface=FIP)
    step = ChangeNetwork(netns=NAME, operation=DelAddress(address), forget=FIP.ip)
    with changing_network(NAME, [step]) as network:
        assert connections(str(FIP.ip)) == 0
        connect(str(FIP.ip))
        network.apply([step.operation])
    assert connections(str(FIP.ip)) == 0


@pytest.mark.spec("L3-22")
def test_connections_of_a_removed_address_end_and_others_stay(executor):
    converge(executor)
    connect(str(FIP.ip))
    connect("203.0.113.5")
    converge(executor, evolve(ROUTER, ports=(QR1, QR2, evolve(QG, addresses=QG.addresses[:2]))))
    assert (connections(str(FIP.ip)), connections("203.0.113.5")) == (0, 1)


def test_two_ports_with_one_device_are_refused():
    with pytest.raises(ValueError, match="two ports with the device"):
        evolve(ROUTER, ports=(QR1, QR1))
