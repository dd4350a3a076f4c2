"""A namespace with a veth, two addresses, routes and a rule: netfw against ``ip -batch``.

Like with like, in one run: ``ip netns add``, one ``ip -batch`` outside and one inside, against the
same operations through :mod:`netfw.linux`.  Run it with ``python -m benchmarks.core.netlink``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, ratio
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddAddress,
    AddRoute,
    AddRule,
    AddVeth,
    NetworkOperation,
    SetMtu,
    SetUp,
)
from netfw.linux.ip.values import Address, IpRule, route
from netfw.testing.lab import sandbox

TARGET = 1.5
RUNS = 21

_OUTSIDE = """\
link add {outer} type veth peer name e0 netns {name}
link set {outer} up
"""
_INSIDE = """\
link set lo up
link set e0 mtu 1400
link set e0 up
address add 10.0.0.2/24 brd + dev e0
address add fd00::2/64 dev e0 nodad
route add default via 10.0.0.1 dev e0 proto static
route add 10.9.0.0/16 via 10.0.0.1 dev e0 proto static
route add fd01::/64 via fd00::1 dev e0 proto static
rule add priority 100 from 10.9.0.0/16 lookup 100 protocol static
"""
_OPERATIONS: tuple[NetworkOperation, ...] = (
    SetMtu("e0", 1400),
    SetUp("e0"),
    AddAddress(Address(device="e0", interface="10.0.0.2/24")),
    AddAddress(Address(device="e0", interface="fd00::2/64", nodad=True)),
    AddRoute(route("default", via="10.0.0.1", device="e0")),
    AddRoute(route("10.9.0.0/16", via="10.0.0.1", device="e0")),
    AddRoute(route("fd01::/64", via="fd00::1", device="e0")),
    AddRule(IpRule(priority=100, source="10.9.0.0/16", table=100)),
)


def figures() -> Iterator[Figure]:
    """Yield the ratio of both ways, executed by turns, by their medians."""
    sandbox.require()
    if (raw := _result(_by_ip)) != (ours := _result(_by_netfw)):
        raise RuntimeError(f"the two do not do the same:\n{raw}\n{ours}")
    times: dict[Callable[[str], None], list[float]] = {_by_ip: [], _by_netfw: []}
    for _ in range(RUNS):
        for way, taken in times.items():
            taken.append(_timed(way))
    by_ip, by_netfw = (statistics.median(taken) for taken in times.values())
    name = "core: namespace with veth, addresses, routes, rule"
    yield ratio(name, own=by_netfw, raw=by_ip, target=TARGET)


def _by_ip(name: str) -> None:
    _run("netns", "add", name)
    _run("-batch", "-", text=_OUTSIDE.format(outer=_outer(name), name=name))
    _run("-n", name, "-batch", "-", text=_INSIDE)


def _by_netfw(name: str) -> None:
    outer = _outer(name)
    netns.create(name)
    with NetlinkClient() as here:
        here.apply([AddVeth(name=outer, peer="e0", peer_namespace=name), SetUp(outer)])
    with NetlinkClient(name) as there:
        there.apply(_OPERATIONS)


def _timed(way: Callable[[str], None]) -> float:
    started = time.perf_counter()
    way("bench")
    taken = time.perf_counter() - started
    _remove("bench")
    return taken


def _result(way: Callable[[str], None]) -> str:
    """Return what a way leaves in the namespace, without what is different each time."""
    way("bench")
    outputs = [
        _run("-n", "bench", "-o", "address", "show", "dev", "e0", "scope", "global"),
        *(_run(family, "-n", "bench", "route", "show") for family in ("-4", "-6")),
        _run("-n", "bench", "rule", "show"),
    ]
    _remove("bench")
    lines = [line for text in outputs for line in text.splitlines()]
    return "\n".join(line for line in lines if "fe80::" not in line)


def _remove(name: str) -> None:
    """Remove a namespace, and wait until the kernel has done so: the next round is measured."""
    netns.delete(name)
    with NetlinkClient() as here:
        while _outer(name) in here.links():
            time.sleep(0.005)


def _outer(name: str) -> str:
    return f"o-{name}"


def _run(*arguments: str, text: str | None = None) -> str:
    line = ["ip", *arguments]
    return subprocess.run(line, input=text, text=True, check=True, capture_output=True).stdout


if __name__ == "__main__":
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "benchmarks.core.netlink"])
    for figure in figures():
        print(figure.line())
