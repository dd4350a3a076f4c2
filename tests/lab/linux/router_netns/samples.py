"""A router namespace, and what converges and changes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from ipaddress import ip_interface, ip_network
from typing import Any
from uuid import UUID

from netfw.linux import netns
from netfw.linux.ip.values import IpRoute, IpRule, NextHop, route
from netfw.linux.iptables import DROP, Chain, ChainKey, IptablesRule, match, target
from netfw.linux.router_netns import (
    NetnsPort,
    RouterNetns,
    RouterNetnsExecutor,
    plan_router_netns,
)
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.plan import Stage

OWNER = "router"
NAME = "qrouter-1"
PORTS = [PortId(UUID(int=number << 96)) for number in (1, 2, 3)]
FIP = ip_interface("203.0.113.9/32")
DNAT = ChainKey(family=4, table="nat", name="dnat")
SNAT = ChainKey(family=4, table="nat", name="snat")
SCOPE = ChainKey(family=4, table="filter", name="scope")
SCOPE6 = ChainKey(family=6, table="filter", name="scope")
MARK = ChainKey(family=4, table="mangle", name="marks")


def port(number: int, prefix: str, *cidrs: str, **rest: Any) -> NetnsPort:
    values: dict[str, Any] = {
        "port": PORTS[number],
        "device": device_name(prefix, PORTS[number]),
        "mac": f"fa:16:3e:00:00:0{number}",
        "mtu": 1450,
        "addresses": tuple(map(ip_interface, cidrs)),
        "settings": {
            "ipv6/accept_ra": "0",
            "ipv6/disable_ipv6": "0",
            "ipv6/addr_gen_mode": "0",
            "ipv4/rp_filter": "0",
        },
    }
    return NetnsPort(**(values | rest))


QR1 = port(0, "qr-", "10.0.0.1/24", "10.0.1.1/24", "fd00:1::1/64")
QR2 = port(1, "qr-", "10.0.2.1/24", "fd00:2::1/64")
QG = port(2, "qg-", "203.0.113.5/24", "2001:db8::5/64", str(FIP), owners={FIP: "fip"})


def translate(fixed: str = "10.0.0.5") -> IptablesRule:
    to = target("DNAT", to_destination=fixed)
    return IptablesRule(destination=FIP.network, target=to, owner="fip")


def chains(*extra: IptablesRule, fixed: str = "10.0.0.5") -> dict[ChainKey, Chain]:
    mark = IptablesRule(in_device=QR1.device, target=target("MARK", set_xmark="0x400/0xffff"))
    deny = IptablesRule(out_device=QR2.device, matches=(match("mark", mark="0x400"),), target=DROP)
    snat = IptablesRule(out_device=QG.device, target=target("SNAT", to_source="203.0.113.5"))
    return {
        MARK: Chain((mark,), frozenset({"PREROUTING"})),
        DNAT: Chain((translate(fixed), *extra), frozenset({"PREROUTING"})),
        SNAT: Chain((snat,), frozenset({"POSTROUTING"})),
        SCOPE: Chain((deny,), frozenset({"FORWARD"})),
        SCOPE6: Chain((IptablesRule(in_device="lo", target=DROP),), frozenset({"INPUT"})),
    }


ROUTER = RouterNetns(
    netns=NAME,
    ports=(QR1, QR2, QG),
    routes=(
        route("default", via="203.0.113.1", device=QG.device),
        route("default", via="2001:db8::1", device=QG.device),
        route("198.51.100.1/32", device=QG.device),
        route("10.8.0.0/16", via="192.0.2.1", device=QG.device, onlink=True),
        IpRoute(
            destination=ip_network("10.9.0.0/16"),
            hops=(
                NextHop(via="10.0.0.7", device=QR1.device),
                NextHop(via="10.0.2.7", device=QR2.device),
            ),
        ),
        IpRoute(
            destination=ip_network("fd09::/64"),
            hops=(
                NextHop(via="fd00:1::7", device=QR1.device),
                NextHop(via="fd00:2::7", device=QR2.device),
            ),
        ),
        route("default", via="10.0.0.8", device=QR1.device, table=16),
        route("default", via="fd00:1::8", device=QR1.device, table=1000),
    ),
    policy_rules=(
        IpRule(priority=32768, source="10.0.0.5/32", table=16),
        IpRule(priority=40000, source="fd00:1::/64", table=1000),
    ),
    sysctls={"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1"},
    chains=chains(),
)


def plan(executor: RouterNetnsExecutor, wanted: RouterNetns = ROUTER) -> tuple[Stage, ...]:
    found = executor.observe(wanted.netns, wanted)
    return plan_router_netns(OWNER, wanted, found, executor.chain_owner)


def converge(
    executor: RouterNetnsExecutor,
    wanted: RouterNetns = ROUTER,
    checkpoint: Callable[[Stage], None] = lambda stage: None,
) -> list[str]:
    stages = plan(executor, wanted)
    for stage in stages:
        executor.apply(stage)
        checkpoint(stage)
    return [operation.text for stage in stages for operation in stage.operations]


def ip(*arguments: str) -> Any:
    done = subprocess.run(
        ["ip", "-n", NAME, "-j", *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout or "null")


def shell(line: str) -> None:
    netns.run_in(NAME, subprocess.run, line, shell=True, check=True, capture_output=True)


def has_link_local(port: NetnsPort) -> bool:
    (device,) = ip("address", "show", "dev", port.device)
    return any(each["scope"] == "link" for each in device["addr_info"])
