"""DHCP: a restart of the agent with many networks, against what no restart can do without.

That is: a process that imports the same modules and reads the same snapshot from the server.  The
agent's clock runs from its start until it says that it is ready.  No dnsmasq may be ended or
started meanwhile.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.dhcp_agent import memory
from benchmarks.dhcp_rig import Rig, many_watchers, rig
from benchmarks.figure import Figure, ratio
from benchmarks.imports import IMPORT, list_modules
from benchmarks.l2_rig import run_alone, seconds
from benchmarks.server_limits import resident
from netfw.testing.lab.wait import wait_until

NETWORKS = 200
PORTS = 5
ROUNDS = 3
TARGET = 3.0
_LEAST = f"""{IMPORT}
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.drivers.values.subscription import Interest, Service
from netfw.drivers.registry.loader import create
from netfw.drivers.transport import Transport
from netfw.state.rpc import RemoteSource
transport = create(Transport, "socket", {{"connect": sys.argv[2]}}, LocalHostResources())
source = RemoteSource(transport)
assert sum(len(page.put) for page in source.snapshot(Interest(sys.argv[3], {{Service.DHCP}})))
source.close()
transport.close()
"""


def figures(networks: int = NETWORKS) -> Iterator[Figure]:
    """The figures of this file."""
    with many_watchers(networks * 2), rig() as found:
        _serve(found, networks)
        found.dhcp.stop()
        modules = list_modules(found.host, "netfw.cli.agents.dhcp", found.dhcp.conf)
        before = found.servers()
        raw, own = [], []
        least, used = [], []
        for _ in range(ROUNDS):
            found.dhcp.stop()
            before_it = _children()
            raw.append(seconds(partial(_least, found, modules)))
            least.append(_children() - before_it)
            own.append(found.dhcp.start())
            used.append(found.cpu())
        touched = before.items() ^ found.servers().items()
        held = resident(found.dhcp.pid)
    print(
        f"    load of the machine: {os.getloadavg()[0]:.1f}; "
        f"CPU: raw {min(least):.2f} s, netfw {min(used):.2f} s"
    )
    name = f"dhcp: restart with {networks} networks"
    yield ratio(f"{name} until ready", own=min(own), raw=min(raw), target=TARGET)
    yield Figure(
        name=f"{name}, dnsmasq touched",
        measured=len(touched),
        target=0,
        raw_seconds=0.0,
        own_seconds=0.0,
        unit="",
    )
    yield memory(f"with {networks} networks", held)


def _children() -> float:
    """Seconds of CPU that processes have used that were waited for."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def _serve(found: Rig, networks: int) -> None:
    began = time.monotonic()
    for number in range(networks):
        found.ports(found.network(number + 1), PORTS)
    made = time.monotonic()
    wait_until(lambda: len(found.servers()) == networks, "every network being served", pause=0.1)
    found.dhcp.wait_for(lambda status: bool(status.get("ready")))
    print(
        f"    {networks} networks: made by the API in {made - began:.1f} s, "
        f"all served {time.monotonic() - made:.1f} s later",
        flush=True,
    )


def _least(found: Rig, modules: Path) -> None:
    where = f"unix:{found.api.messages}"
    argv = [sys.executable, "-c", _LEAST, str(modules), where, found.host.name]
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    run_alone("benchmarks.dhcp_restart", partial(figures, *map(int, sys.argv[1:])))
