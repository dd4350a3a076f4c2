"""DHCP: a restart of the agent with many networks, against what no restart can do without.

That is: a process that imports the same modules and reads the same snapshot from the server.  The
agent's clock runs from its start until it says that it is ready.  No dnsmasq may be ended or
started meanwhile.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.dhcp.rig import Rig, many_watchers, rig
from benchmarks.figure import Figure, megabytes, ratio, zero
from benchmarks.imports import list_modules
from benchmarks.l2.rig import run_alone, seconds
from benchmarks.process_usage import children_cpu, process_cpu, resident
from benchmarks.snapshot import import_and_read_snapshot
from netfw.drivers.values.subscription import Service
from netfw.testing.lab.wait import wait_until

NETWORKS = 200
PORTS = 5
ROUNDS = 3
TARGET = 2.0
MEMORY = 100.0


def figures(networks: int = NETWORKS) -> Iterator[Figure]:
    """Yield the figures of this file."""
    with many_watchers(networks * 2), rig() as found:
        _serve(found, networks)
        found.dhcp.stop()
        modules = list_modules(found.host, "netfw.cli.agents.dhcp", found.dhcp.conf)
        before = found.all_dnsmasq()
        read = partial(
            import_and_read_snapshot, modules, found.server, found.host.name, Service.DHCP
        )
        raw, own = [], []
        least, used = [], []
        for _ in range(ROUNDS):
            found.dhcp.stop()
            before_it = children_cpu()
            raw.append(seconds(read))
            least.append(children_cpu() - before_it)
            own.append(found.dhcp.start())
            used.append(process_cpu(found.dhcp.pid))
        touched = before.items() ^ found.all_dnsmasq().items()
        size = resident(found.dhcp.pid)
    print(
        f"    load of the machine: {os.getloadavg()[0]:.1f}; "
        f"CPU: raw {min(least):.2f} s, netfw {min(used):.2f} s"
    )
    name = f"dhcp: restart with {networks} networks"
    yield ratio(f"{name} until ready", own=min(own), raw=min(raw), target=TARGET)
    yield zero(f"{name}, dnsmasq touched", len(touched))
    yield megabytes(f"dhcp: memory of the agent with {networks} networks", size, MEMORY)


def _serve(found: Rig, networks: int) -> None:
    began = time.monotonic()
    for number in range(networks):
        found.ports(found.network(number + 1), PORTS)
    made = time.monotonic()
    wait_until(
        lambda: len(found.all_dnsmasq()) == networks, "every network being served", pause=0.1
    )
    found.dhcp.wait_for(lambda status: bool(status.get("ready")))
    print(
        f"    {networks} networks: made by the API in {made - began:.1f} s, "
        f"all served {time.monotonic() - made:.1f} s later",
        flush=True,
    )


if __name__ == "__main__":
    run_alone("benchmarks.dhcp.restart", partial(figures, *map(int, sys.argv[1:])))
