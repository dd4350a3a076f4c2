"""Stations to try, and how one is made so."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_interface
from typing import Any
from uuid import UUID, uuid4

from netfw.drivers.interface import InterfaceDriver
from netfw.linux.service_netns import (
    ServiceNetns,
    ServiceNetnsExecutor,
    plan_removal,
    plan_service_netns,
)
from netfw.linux.service_netns.values import IPV6_MTU
from netfw.model.values.device_names import dhcp_namespace
from netfw.model.values.ids import PortId
from netfw.plan import Plan, Stage

OWNER = "network"
MAC = "fa:16:3e:00:00:01"


def station(interface: InterfaceDriver, number: int = 1, **rest: Any) -> ServiceNetns:
    """Return a station of both families without connection tracking and filling of checksums."""
    port = PortId(uuid4())
    values: dict[str, Any] = {
        "netns": dhcp_namespace(UUID(int=number)),
        "port": port,
        "device": interface.device_name(port),
        "mac": f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}",
        "mtu": 1450,
        "addresses": interfaces("10.0.0.2/24", "fd00::2/64"),
        "gateways": addresses("10.0.0.1", "fd00::1"),
    }
    return ServiceNetns(**(values | rest))


def interfaces(*texts: str) -> tuple[Any, ...]:
    return tuple(map(ip_interface, texts))


def addresses(*texts: str) -> tuple[Any, ...]:
    return tuple(map(ip_address, texts))


def plan(stations: ServiceNetnsExecutor, wanted: ServiceNetns) -> tuple[Stage, ...]:
    return plan_service_netns(OWNER, wanted, stations.observe(wanted.netns))


def converge(
    stations: ServiceNetnsExecutor,
    wanted: ServiceNetns,
    checkpoint: Callable[[Stage], None] = lambda stage: None,
) -> list[str]:
    """Make *wanted* so; what was done."""
    stages = plan(stations, wanted)
    for stage in stages:
        assert stations.handles(stage)
        stations.apply(stage)
        checkpoint(stage)
    return lines(stages)


def remove(stations: ServiceNetnsExecutor, wanted: ServiceNetns) -> list[str]:
    stages = plan_removal(OWNER, stations.observe(wanted.netns), wanted.port)
    for stage in stages:
        stations.apply(stage)
    return lines(stages)


def lines(stages: tuple[Stage, ...]) -> list[str]:
    return [str(operation) for operation in Plan(stages)]


def ip(netns: str, *arguments: str) -> Any:
    """Return the output of ``ip`` for a namespace, which shares no code with the tested modules."""
    done = subprocess.run(
        ["ip", "-j", "-n", netns, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout or "[]")


def in_netns(netns: str, command: str) -> str:
    argv = ["ip", "netns", "exec", netns, *command.split()]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def seen(netns: str) -> dict[str, Any]:
    """Return the visible state of a namespace, once the kernel has added its addresses."""
    awaited(lambda: lacks_link_local(netns), [])
    links = ip(netns, "address", "show")
    settings = [
        "net.ipv4.conf.all.promote_secondaries",
        *(
            f"net/ipv6/conf/{link['ifname']}/{setting}"
            for link in links
            if link["ifname"] != "lo"
            for setting in ("accept_ra", "accept_dad", "disable_ipv6")
        ),
    ]
    routes = [*ip(netns, "-4", "route", "show"), *ip(netns, "-6", "route", "show")]
    return {
        "links": {
            link["ifname"]: (link["address"], link["mtu"], "UP" in link["flags"]) for link in links
        },
        "addresses": {
            f"{entry['local']}/{entry['prefixlen']} dev {link['ifname']}"
            for link in links
            for entry in link["addr_info"]
            if "tentative" not in entry
        },
        "routes": {" ".join(filter(None, (r["dst"], r.get("gateway"), r["dev"]))) for r in routes},
        "rules": [
            line
            for line in in_netns(netns, "iptables-save -t mangle").splitlines()
            if line.startswith("-A")
        ],
        "sysctls": set(in_netns(netns, f"sysctl -e {' '.join(settings)}").splitlines()),
    }


def lacks_link_local(netns: str) -> list[str]:
    """Return the devices for which the kernel still has to add a link-local address.

    It adds the address when it finds, a while after the device was set up, that it has a carrier.
    """
    return [
        link["ifname"]
        for link in ip(netns, "address", "show")
        if link["ifname"] != "lo" and "UP" in link["flags"] and link["mtu"] >= IPV6_MTU
        if not any(
            e["local"].startswith("fe80:") and e["prefixlen"] == 64 and "tentative" not in e
            for e in link["addr_info"]
        )
        if _has_ipv6(netns, link["ifname"])
    ]


def _has_ipv6(netns: str, device: str) -> bool:
    paths = (f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6" for name in ("all", device))
    return set(in_netns(netns, f"cat {' '.join(paths)}").split()) == {"0"}


def awaited(question: Callable[[], Any], wanted: Any) -> None:
    deadline = time.monotonic() + 60
    while (answer := question()) != wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answer == wanted
