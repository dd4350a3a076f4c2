"""L3: 50 highly available routers on two hosts, from nothing, against the raw tools; and at rest.

The clock runs from the start of both L3 agents, imports included, until every gateway answers a
machine on a third host.  Then all of it is removed and made again by the raw tools on both hosts at
once, keepalived included (:mod:`benchmarks.l3.raw`), until every gateway answers.  In both times is
an election for each router, which takes one dead interval of VRRP.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from benchmarks.figure import Figure, megabytes, percent
from benchmarks.l2.rig import run_alone
from benchmarks.l3.raw import Script, find_keepalived, record, remove
from benchmarks.l3.rig import ADVERT, DEAD_INTERVAL, Rig, Router, reach, rig
from benchmarks.process_usage import Cost, children_cpu, cpu_with_children, process_cpu, resident
from benchmarks.service_rig import HostAgents

ROUTERS = 50
TARGET, IDLE, MEMORY = 3.0, 1.0, 100.0
REST = 30.0
"""Seconds at rest that are measured: one interval of the agents' reports."""

T = TypeVar("T")


def figures(routers: int = ROUTERS) -> Iterator[Figure]:
    """Yield the figures of this file."""
    name = f"l3: {routers} HA routers on two hosts"
    with rig(hosts=3) as found:
        _stop(found)
        made = found.routers(routers, ha=True)
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        own = _by_netfw(found, made)
        yield from _at_rest(found, name)
        _stop(found)
        scripts = _on_each(found, lambda on: record(on, made))
        _on_each(found, lambda on: remove(on, [router.netns for router in made]))
        for on in found.hosts:
            found.await_rest(on.l2)
        raw = _by_tools(found, made, scripts)
    print(f"    CPU: raw {raw.cpu:.2f} s, both agents {own.cpu:.2f} s", flush=True)
    yield Figure(
        name=f"{name} from nothing, less one dead interval",
        measured=(own.wall - DEAD_INTERVAL) / raw.wall,
        target=TARGET,
        raw_seconds=raw.wall,
        own_seconds=own.wall,
    )


def _by_netfw(found: Rig, routers: list[Router]) -> Cost:
    began = time.monotonic()
    for on in found.serving:
        on.agent.spawn()
    reach(found, routers)
    ended = time.monotonic()
    cpu = sum(cpu_with_children(on.agent.pid) for on in found.serving)
    for on in found.serving:
        on.agent.wait_for(lambda status: bool(status.get("ready")))
    found.await_active()
    return Cost(ended - began, cpu)


def _by_tools(found: Rig, routers: list[Router], scripts: list[Script]) -> Cost:
    before, began = children_cpu(), time.monotonic()
    _on_each(found, lambda on: scripts[found.serving.index(on)].run(on.host))
    spent = children_cpu() - before
    reach(found, routers)
    return Cost(time.monotonic() - began, spent)


def _stop(found: Rig) -> None:
    for on in found.serving:
        on.agent.stop()


def _on_each(found: Rig, work: Callable[[HostAgents], T]) -> list[T]:
    """Do something for all hosts with an L3 agent at once."""
    with ThreadPoolExecutor(len(found.serving)) as pool:
        return list(pool.map(work, found.serving))


def _at_rest(found: Rig, name: str) -> Iterator[Figure]:
    """Measure the CPU of one host's agent and keepalived while nothing changes."""
    for on in found.serving:
        found.await_rest(on.agent)
    before = [_used(on) for on in found.serving]
    time.sleep(REST)
    after = [_used(on) for on in found.serving]
    l3, l2, keepalived = (
        max(late[kind] - early[kind] for early, late in zip(before, after, strict=True)) / REST
        for kind in range(3)
    )
    print(
        f"    at rest, on the host with more of each: L2 agent {l2:.2%}, keepalived of all routers "
        f"{keepalived:.2%}, with an advertisement each {ADVERT} s",
        flush=True,
    )
    yield percent(f"{name}, CPU of an agent at rest", l3, IDLE)
    size = max(resident(on.agent.pid) for on in found.serving)
    yield megabytes(f"{name}, memory of an agent", size, MEMORY)


def _used(on: HostAgents) -> tuple[float, float, float]:
    """Return the CPU seconds of the L3 agent, the L2 agent and every keepalived of a host."""
    keepalived = sum(map(process_cpu, find_keepalived(on.host)))
    return cpu_with_children(on.agent.pid), cpu_with_children(on.l2.pid), keepalived


if __name__ == "__main__":
    run_alone("benchmarks.l3.ha_routers", partial(figures, *map(int, sys.argv[1:])))
