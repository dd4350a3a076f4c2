"""What other programs add to a router namespace, and how much of it is removed."""

from __future__ import annotations

import subprocess

import pytest

from netfw.linux import netns
from netfw.linux.router_netns import RouterNetnsExecutor, plan_router_netns
from netfw.linux.service_netns import DriftMonitor
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.router_netns.samples import (
    NAME,
    OWNER,
    QG,
    QR1,
    QR2,
    ROUTER,
    converge,
    has_link_local,
    plan,
    shell,
)

SHOW = """
ip -o address show
{ ip -4 route show table all; ip -6 route show table all; } | grep -v "proto kernel"
ip rule show; ip -6 rule show
iptables-save | grep '^-A [A-Z]* \\|^:[A-Z]* '; ip6tables-save | grep '^-A [A-Z]* \\|^:[A-Z]* '
"""
FOREIGN = {
    "prepended route": "ip route prepend default via 203.0.113.99",
    "appended route": "ip route append default via 203.0.113.99",
    "route of our protocol": "ip route append default via 203.0.113.99 proto static",
    "IPv6 route beside": f"ip -6 route append default dev {QR1.device} proto static",
    "IPv6 route before": f"""
        ip -6 route del default; ip -6 route add default dev {QG.device} proto static
        ip -6 route append default via 2001:db8::1 dev {QG.device} proto static""",
    "TOS": "ip route add default via 203.0.113.99 tos 0x10",
    "source network": f"ip -6 route add default from fd00:1::/64 via fd00:2::9 dev {QR2.device}",
    "metrics": f"ip route replace default via 203.0.113.1 dev {QG.device} mtu 600",
    "IPv6 metrics": f"ip -6 route replace default via 2001:db8::1 dev {QG.device} mtu 1300",
    "lifetime": f"ip -6 route replace default via 2001:db8::1 dev {QG.device} expires 600",
    "source address": "ip route replace default via 203.0.113.1 src 10.0.0.1",
    "metric": "ip route add default via 203.0.113.99 metric 5",
    "protocol 0": "ip route add 198.18.0.0/15 via 203.0.113.99 proto 0",
    "local of protocol 0": "ip route add local 198.18.0.0/15 dev lo proto 0",
    "blackhole": "ip route add blackhole 198.18.0.0/15 table 77",
    "nexthop object": f"""
        ip nexthop add id 7 via 203.0.113.99 dev {QG.device}
        ip route add 198.18.0.0/15 nhid 7""",
    "peer": f"ip address add 10.0.0.1 peer 10.66.0.0/24 dev {QR1.device}",
    "peer of a new address": f"ip address add 192.0.2.66 peer 198.18.0.0/15 dev {QR1.device}",
    "IPv6 peer": f"""
        ip address del fd00:1::1/64 dev {QR1.device}
        ip address add fd00:1::1 peer fd66::/64 dev {QR1.device} nodad""",
    "loopback address": "ip address add 198.18.0.1/32 dev lo",
    "IPv6 loopback address": "ip address add fd66::1/128 dev lo",
    "rule of a protocol": "ip rule add ipproto tcp dport 80 lookup 16 priority 5",
    "rule with host bits": "ip rule add from 10.0.0.9/24 lookup 16 priority 5",
    "IPv6 rule with host bits": "ip -6 rule add to fd00:1::9/64 lookup 1000 priority 5",
    "rule with TOS": "ip rule add from 10.0.0.5/32 tos 0x10 lookup 16 priority 5",
    "inverted rule": "ip rule add not from 10.0.0.5/32 lookup 16 priority 5",
    "rule with a range of users": "ip rule add uidrange 0-10 lookup 16 priority 5",
    "rule that jumps": "ip rule add from 10.0.0.0/8 goto 32766 priority 5",
    "kernel's rules removed": "ip rule flush; ip -6 rule flush",
    "kernel's rule replaced": "ip rule del priority 32766; ip rule add lookup 16 priority 32766",
    "iptables rule": "iptables -I FORWARD -s 10.0.0.0/8 -m comment --comment 'a -j l3-b' -j DROP",
    "ip6tables rule": "ip6tables -A FORWARD -p tcp --dport 80 -j REJECT",
    "iptables rules of two tables": """
        iptables -t nat -I PREROUTING -d 203.0.113.9 -j DNAT --to-destination 10.0.2.9
        iptables -t nat -A POSTROUTING -j MASQUERADE
        iptables -t mangle -A PREROUTING -j MARK --set-mark 9""",
    "jump to a foreign chain": """
        iptables -N foreign; iptables -A foreign -j DROP; iptables -I FORWARD -j foreign""",
    "policy": "iptables -P FORWARD DROP",
}


def contents() -> str:
    """Return what steers packets, as the tools print it, without what the kernel adds later."""
    result = netns.run_in(NAME, subprocess.run, SHOW, shell=True, capture_output=True, text=True)
    lines = (line.split(" [")[0] for line in result.stdout.splitlines())
    return "\n".join(line.replace(" tentative", "") for line in lines)


@pytest.fixture
def monitored(executor: RouterNetnsExecutor):
    """Converge a router whenever the monitor reports it, and yield the changes that were made."""
    converge(executor)
    repaired: list[str] = []

    def repair(_: str) -> None:
        repaired.extend(converge(executor))
        monitor.watch(ROUTER)

    monitor = DriftMonitor(executor, repair)
    wait_until(lambda: plan(executor) == () and all(map(has_link_local, ROUTER.ports)))
    monitor.watch(ROUTER)
    yield repaired
    monitor.close()


@pytest.mark.parametrize("device", ["lo", QR1.device])
def test_an_address_with_a_lifetime_stays(executor, device):
    converge(executor)
    shell(f"ip address add fd66::1/128 dev {device} valid_lft 3600 preferred_lft 3600")
    wait_until(lambda: "tentative" not in addresses(device))
    assert plan(executor) == ()


def addresses(device: str) -> str:
    words = ["ip", "-o", "-6", "address", "show", "dev", device]
    return str(netns.run_in(NAME, subprocess.check_output, words, text=True))


@pytest.mark.spec("L3-21")
@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_other_programs_add_is_reported_and_removed(executor, monitored, foreign):
    before = contents()
    shell(f"set -e\n{foreign}")
    wait_until(lambda: bool(monitored), "nothing was reported")
    wait_until(lambda: contents() == before, lambda: f"{before}\nbecame\n{contents()}")
    wait_until(lambda: plan(executor) == ())


def test_rules_that_are_added_to_a_new_namespace_at_once_are_read(executor, monkeypatch):
    # A program that watches for namespaces may add rules before their first observation.
    create = netns.ensure

    def create_with_a_rule(name: str) -> bool:
        created = create(name)
        shell("iptables -w -I FORWARD -j DROP")
        return created

    monkeypatch.setattr(netns, "ensure", create_with_a_rule)
    converge(executor)
    found = executor.observe(NAME, ROUTER, mirrored=True)
    assert plan_router_netns(OWNER, ROUTER, found, executor.chain_owner), "the rule is not seen"
    converge(executor)
    assert "-A FORWARD -j DROP" not in contents()
