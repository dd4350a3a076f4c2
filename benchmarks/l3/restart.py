"""L3: a restart of the agent with unchanged routers, against what no restart can do without.

That is: a process that imports the same modules and reads the same snapshot from the server, and
then, for each router, ``ip -batch`` that dumps links, addresses, routes and policy rules, and
``iptables-save``, of both families.  The agent's clock runs from its start until it says that it is
ready.  Operations are counted by the kernel: generations of the rules of each namespace, and
announcements of changed links, addresses, routes and policy rules; and devices that are not the
same in the database of the switch.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.figure import Figure, megabytes, ratio, zero
from benchmarks.imports import list_modules
from benchmarks.l2.rig import run_alone
from benchmarks.l3.rig import Rig, Router, reach, rig
from benchmarks.process_usage import Cost, children_cpu, cpu_with_children, resident
from benchmarks.snapshot import import_and_read_snapshot
from netfw.drivers.values.subscription import Service
from netfw.linux import netns
from netfw.linux.ip.multi_netns_monitor import MultiNetnsMonitor
from netfw.linux.netlink.nftables_generation import read_generation
from netfw.testing.lab.host import Host

ROUTERS = 50
ROUNDS = 3
TARGET, MEMORY = 2.0, 100.0
NEUTRON_MEMORY = 700
_SUBNET = "10.0.0.0/24"
_READ = """
printf 'link show\\naddress show\\nroute show table all\\nrule show\\n' | ip -batch -
printf 'route show table all\\nrule show\\n' | ip -6 -batch -
iptables-save
ip6tables-save
"""


def figures(routers: int = ROUTERS) -> Iterator[Figure]:
    """Yield the figures of this file."""
    with rig() as found:
        made = found.routers(routers)
        found.instance("vm", made[0].network, _SUBNET, "10.0.0.1")
        target = found.floating_ip(found.ports["vm"])["floating_ip_address"]
        found.answered(target)
        found.await_active()
        reach(found, made)
        found.l3.stop()
        modules = list_modules(found.host, "netfw.cli.agents.l3", found.l3.conf)
        print(f"    load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        raw, own = [], []
        names = [router.netns for router in made]
        with found.world.pinging(target) as ping, count_operations(found.host, names) as operations:
            for _ in range(ROUNDS):
                raw.append(_least(found, modules, made))
                own.append(_restart(found))
                size = resident(found.l3.pid)
                found.l3.stop()
            lost = ping.stop().lost
        found.l3.spawn()
    name = f"l3: restart with {routers} routers"
    wall = [min(cost.wall for cost in each) for each in (own, raw)]
    yield ratio(f"{name} until ready", own=wall[0], raw=wall[1], target=TARGET)
    cpu = [min(cost.cpu for cost in each) for each in (own, raw)]
    yield ratio(f"{name}, CPU", own=cpu[0], raw=cpu[1], target=TARGET)
    yield zero(f"l3: operations of {ROUNDS} restarts", operations[0])
    yield zero(f"l3: pings lost in {ROUNDS} restarts", lost)
    yield memory(f"with {routers} routers", size, MEMORY)


def memory(when: str, measured: float, target: float) -> Figure:
    """Make the figure of the agent's memory, beside Neutron's."""
    print(f"    Neutron 29, with 50 routers: {NEUTRON_MEMORY} MB")
    return megabytes(f"l3: memory of the agent {when}", measured, target)


def _restart(found: Rig) -> Cost:
    wall = found.l3.start()
    return Cost(wall, cpu_with_children(found.l3.pid))


def _least(found: Rig, modules: Path, routers: list[Router]) -> Cost:
    before, began = children_cpu(), time.monotonic()
    import_and_read_snapshot(modules, found.server, found.host.name, Service.L3)
    for router in routers:
        enter = ["nsenter", f"--net=/run/netns/{router.netns}", "sh", "-ec", _READ]
        found.host.run(enter)
    return Cost(time.monotonic() - began, children_cpu() - before)


@contextmanager
def count_operations(host: Host, namespaces: list[str]) -> Iterator[list[int]]:
    """Count what changes on a host within the ``with`` statement; the count is there after it."""
    count: list[int] = []
    changed: list[str] = []
    monitor = host.call(MultiNetnsMonitor, changed.extend, 0.01)
    before = _state(host, namespaces)
    for name in namespaces:
        host.call(monitor.watch, name)
    try:
        yield count
    finally:
        monitor.close()
    count.append(len(changed) + len(before ^ _state(host, namespaces)))


def _state(host: Host, namespaces: list[str]) -> set[object]:
    """Return the generation of the rules of each namespace, and the devices of the switch."""
    generations = {(name, host.call(netns.run_in, name, read_generation)) for name in namespaces}
    rows = host.ovs.vsctl("--columns=_uuid,name,mac,external_ids", "list", "Interface")
    return {*generations, *rows.split("\n\n")}


if __name__ == "__main__":
    run_alone("benchmarks.l3.restart", partial(figures, *map(int, sys.argv[1:])))
