"""L3: 50 routers with a gateway and floating IPs, from nothing, against the raw tools.

The agent's clock runs from the start of its process, imports included, until every gateway answers
a machine outside and every floating IP is reported ACTIVE.  Then all of it is removed and made
again by the raw tools (:mod:`benchmarks.l3.raw`), until every gateway answers.  The switch and the
L2 agent work for both, and are in the time of both and in the CPU of neither.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.figure import Figure, ratio
from benchmarks.l2.rig import run_alone
from benchmarks.l3.raw import Script, record, remove
from benchmarks.l3.rig import Rig, Router, reach, rig
from benchmarks.process_usage import Cost, children_cpu, cpu_with_children

ROUTERS = 50
ROUNDS = 2
TARGET = 3.0
NEUTRON, NEUTRON_CPU = 97.0, 102.0


def figures(routers: int = ROUTERS) -> Iterator[Figure]:
    """Yield the figures of this file."""
    own, raw = [], []
    with rig() as found:
        (on,) = found.hosts
        found.l3.stop()
        made = found.routers(routers)
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        for number in range(ROUNDS):
            own.append(_by_netfw(found, made))
            if not number:
                script = record(on, made)
            _remove(found, made)
            raw.append(_by_tools(found, made, script))
            if number + 1 < ROUNDS:
                _remove(found, made)
        found.l3.spawn()
    name = f"l3: {routers} routers, 2 floating IPs each, from nothing"
    least, most = (min(each, key=lambda cost: cost.wall) for each in (raw, own))
    print(f"    Neutron 29, for 50: {NEUTRON:g} s, {NEUTRON_CPU:g} s of CPU")
    yield ratio(name, own=most.wall, raw=least.wall, target=TARGET)
    cpu = (min(cost.cpu for cost in each) for each in (own, raw))
    yield ratio(f"{name}, CPU", own=next(cpu), raw=next(cpu), target=TARGET)


def _by_netfw(found: Rig, routers: list[Router]) -> Cost:
    began = time.monotonic()
    found.l3.start()
    reach(found, routers)
    found.await_active()
    ended = time.monotonic()
    cpu = cpu_with_children(found.l3.pid)
    found.l3.stop()
    return Cost(ended - began, cpu)


def _by_tools(found: Rig, routers: list[Router], script: Script) -> Cost:
    before, began = children_cpu(), time.monotonic()
    script.run(found.host)
    spent = children_cpu() - before
    reach(found, routers)
    return Cost(time.monotonic() - began, spent)


def _remove(found: Rig, routers: list[Router]) -> None:
    (on,) = found.hosts
    remove(on, [router.netns for router in routers])
    found.await_rest(found.l2)


if __name__ == "__main__":
    run_alone("benchmarks.l3.routers", partial(figures, *map(int, sys.argv[1:])))
