"""L3: 50 distributed routers with floating IPs on a compute host, from nothing, and the raw tools.

Each router has an instance on the host and two floating IPs there; its central part is assigned to
a network node, whose L3 agent does not run meanwhile.  The clock of the agent runs from the start
of its process, imports included, until a machine outside reaches each instance by its floating IP
and all floating IPs are reported ACTIVE.  Then all of it is removed and made again by the raw tools
(:mod:`benchmarks.l3.distributed_raw`), until each instance is reached.  The switch and the L2 agent
work for both, and are in the time of both and in the CPU of neither.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.figure import Figure, ratio
from benchmarks.l2.rig import run_alone
from benchmarks.l3.distributed_raw import record
from benchmarks.l3.distributed_rig import CIDR, DistributedRig, distributed_rig
from benchmarks.l3.raw import Script, remove
from benchmarks.process_usage import Cost, children_cpu, cpu_with_children

ROUTERS = 50
ROUNDS = 2
TARGET = 3.0


def figures(routers: int = ROUTERS) -> Iterator[Figure]:
    """Yield the figures of this file."""
    own, raw = [], []
    with distributed_rig() as found:
        for each in found.serving:
            each.agent.stop()
        made = found.routers(routers, CIDR, 0, distributed=True)
        addresses = found.boot(made)
        found.await_rest(found.compute.l2)
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        for number in range(ROUNDS):
            own.append(_by_netfw(found, addresses))
            names = sorted(found.namespaces(found.compute))
            if not number:
                script = record(found.compute, names)
            _remove(found, names)
            raw.append(_by_tools(found, addresses, script))
            _remove(found, names)
        for each in found.serving:
            each.agent.spawn()
    name = f"l3: {routers} distributed routers, 2 floating IPs each"
    wall = [min(cost.wall for cost in each) for each in (own, raw)]
    yield ratio(f"{name}, from nothing", own=wall[0], raw=wall[1], target=TARGET)
    cpu = [min(cost.cpu for cost in each) for each in (own, raw)]
    yield ratio(f"{name}, CPU", own=cpu[0], raw=cpu[1], target=TARGET)


def _by_netfw(found: DistributedRig, addresses: list[str]) -> Cost:
    agent = found.compute.agent
    began = time.monotonic()
    agent.start()
    _reach(found, addresses)
    found.await_active()
    ended = time.monotonic()
    cpu = cpu_with_children(agent.pid)
    agent.stop()
    return Cost(ended - began, cpu)


def _by_tools(found: DistributedRig, addresses: list[str], script: Script) -> Cost:
    before, began = children_cpu(), time.monotonic()
    script.run(found.compute.host)
    spent = children_cpu() - before
    _reach(found, addresses)
    return Cost(time.monotonic() - began, spent)


def _reach(found: DistributedRig, addresses: list[str]) -> None:
    """Wait until all instances answer by their floating IPs."""
    for address in addresses:
        found.answered(address)


def _remove(found: DistributedRig, namespaces: list[str]) -> None:
    remove(found.compute, namespaces)
    found.await_rest(found.compute.l2)


if __name__ == "__main__":
    run_alone("benchmarks.l3.distributed", partial(figures, *map(int, sys.argv[1:])))
