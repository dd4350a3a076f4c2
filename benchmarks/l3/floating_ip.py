"""L3: one floating IP more, from the request to the API until a machine outside has an answer.

The floating IP is for an instance that is there before; it is deleted again after each round.
Measured with one router, on a router with 500 floating IPs, and with 500 routers.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import median

from attrs import frozen

from benchmarks.figure import Figure, milliseconds, ratio
from benchmarks.l2.rig import run_alone
from benchmarks.l3.restart import memory
from benchmarks.l3.rig import Rig, Router, rig
from benchmarks.process_usage import cpu_with_children, resident

MANY = 500
ROUNDS = 11
TARGET, FLAT, MEMORY = 300.0, 1.5, 130.0
NEUTRON = 1.8
_NARROW, _WIDE = "10.0.0.0/24", "10.0.0.0/16"


@frozen
class Cost:
    """Of one floating IP more, seconds: until it answers, of the request, of the agent's CPU with
    the processes that it runs, and of the server's."""

    wall: float
    request: float
    agent: float
    server: float


def figures(many: int = MANY) -> Iterator[Figure]:
    """Yield the figures of this file."""
    with rig() as found:
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        few = found.router(_NARROW, 1)
        found.instance("few", few.network, _NARROW, "10.0.0.1")
        alone = _one_more(found, "few")
        yield _reached("1 router", alone, _lookup(found, few))
        crowded = found.router(_WIDE, 1)
        found.instance("many", crowded.network, _WIDE, "10.0.0.1")
        _make_floating_ips(found, crowded, many)
        on_one = _one_more(found, "many")
        yield _reached(f"{many} on the router", on_one, _lookup(found, crowded))
        _make_routers(found, many)
        among = _one_more(found, "few")
        yield _reached(f"{many} routers", among, _lookup(found, few))
        size = resident(found.l3.pid)
    name = "l3: one floating IP more with"
    yield ratio(f"{name} {many} on its router", own=on_one.wall, raw=alone.wall, target=FLAT)
    yield ratio(f"{name} {many} routers", own=among.wall, raw=alone.wall, target=FLAT)
    yield memory(f"with {many} routers", size, MEMORY)


def _reached(where: str, cost: Cost, lookup: float) -> Figure:
    print(
        f"    {where}: the request {cost.request * 1000:.1f} ms; CPU of the agent "
        f"{cost.agent * 1000:.1f} ms, of the server {cost.server * 1000:.1f} ms; the switch alone, "
        f"for a gateway that is looked up: {lookup * 1000:.1f} ms; Neutron 29: "
        f"{NEUTRON * 1000:.0f} ms"
    )
    return milliseconds(f"l3: from the API to the first ping, {where}", cost.wall, TARGET)


def _one_more(found: Rig, instance: str) -> Cost:
    walls, requests, agent, server = [], [], [], []
    for _ in range(ROUNDS):
        found.await_rest(found.l3)
        before = cpu_with_children(found.l3.pid), cpu_with_children(found.server.pid)
        began = time.monotonic()
        floating = found.floating_ip(found.ports[instance])
        requests.append(time.monotonic() - began)
        walls.append(found.answered(floating["floating_ip_address"]) - began)
        found.await_rest(found.l3)
        agent.append(cpu_with_children(found.l3.pid) - before[0])
        server.append(cpu_with_children(found.server.pid) - before[1])
        found.delete_floating_ip(floating["id"])
        found.silent(floating["floating_ip_address"])
    return Cost(*map(median, (walls, requests, agent, server)))


def _lookup(found: Rig, router: Router) -> float:
    """Return how long the switch takes for the first ping of a gateway that was there before.

    The machine outside asks all ports of the external network for the address first.
    """
    walls = []
    for _ in range(ROUNDS):
        found.await_rest(found.l3)
        found.world.run(["ip", "neighbour", "flush", "all"])
        began = time.monotonic()
        walls.append(found.answered(router.gateway) - began)
    return median(walls)


def _make_floating_ips(found: Rig, router: Router, count: int) -> None:
    began = time.monotonic()
    found.add_floating_ips([router], count)
    _await(found, f"{count} floating IPs", began)


def _make_routers(found: Rig, count: int) -> None:
    began = time.monotonic()
    found.routers(count, _NARROW, 1)
    _await(found, f"{count} routers", began)


def _await(found: Rig, what: str, began: float) -> None:
    made = time.monotonic()
    found.await_active(pause=0.5)
    print(
        f"    {what}: made by the API in {made - began:.1f} s, served {time.monotonic() - made:.1f}"
        " s later",
        flush=True,
    )


if __name__ == "__main__":
    run_alone("benchmarks.l3.floating_ip", partial(figures, *map(int, sys.argv[1:])))
