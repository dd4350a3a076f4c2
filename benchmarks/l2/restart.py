"""A restart of the agent with wired ports, against what no restart can do without.

That is: a process that imports the same modules and ends, one dump of the flows of both bridges,
and one of the database, one after the other.  The agent's clock runs from its start until it says
that it is ready.  No flow may be made again meanwhile, and no ping may be lost.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from attrs import frozen

from benchmarks.figure import Figure, milliseconds, ratio, zero
from benchmarks.imports import IMPORT, list_modules
from benchmarks.l2.rig import Rig, environment, rig, run_alone, seconds
from netfw.testing.lab.wait import wait_until

SIZES = (50, 200, 500, 1000)
ROUNDS = 3
TARGET = 3.0
CPU = 1750.0
"""Milliseconds of a restart with filtered ports: half of what it took once."""
CHOSEN = (200, 1000)
_CLOSE = 0.5
"""Seconds by which two dumps may differ about when a flow was made."""


@frozen(kw_only=True)
class Restart:
    """The shortest times of either side, and what the restarts did to the switch."""

    raw: float
    own: float
    cpu: float
    changed: int
    lost: int


def figures(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Yield the figures of this file."""
    found = {size: _measure(size) for size in sizes}
    filtered = _measure(max(sizes), firewall="openflow")
    times = {size: (one.raw, one.own) for size, one in found.items()}
    for size, one in found.items():
        if size in CHOSEN:
            yield ratio(
                f"l2: restart with {size} wired ports until ready",
                own=one.own,
                raw=one.raw,
                target=TARGET,
                sizes=times if size == max(found) else None,
            )
            yield zero(f"l2: flows changed by {ROUNDS} restarts with {size} ports", one.changed)
            yield zero(f"l2: pings lost in {ROUNDS} restarts with {size} ports", one.lost)
    name = f"{max(sizes)} filtered ports"
    yield ratio(
        f"l2: restart with {name} until ready", own=filtered.own, raw=filtered.raw, target=TARGET
    )
    yield milliseconds(f"l2: CPU of a restart with {name}", filtered.cpu, CPU)
    yield zero(f"l2: flows changed by {ROUNDS} restarts with {name}", filtered.changed)
    yield zero(f"l2: pings lost in {ROUNDS} restarts with {name}", filtered.lost)


def _measure(size: int, firewall: str = "") -> Restart:
    numbers = range(1, size + 1)
    raw, own, cpu = [], [], []
    with rig(firewall=firewall) as (host, instance, target):
        host.want(numbers)
        start = host.mark()
        host.plug(numbers)
        wait_until(lambda: host.passed(start)[0] >= size, "the wiring")
        time.sleep(3)
        host.stop()
        modules = list_modules(host.host, "netfw.cli.agents.l2", host.conf)
        before = host.since()
        with instance.pinging(target) as ping:
            for _ in range(ROUNDS):
                raw.append(seconds(partial(_least, host, modules)))
                own.append(host.start())
                cpu.append(host.cpu())
                host.stop()
            lost = ping.stop().lost
        changed = _changed(before, host.since())
    return Restart(raw=min(raw), own=min(own), cpu=min(cpu), changed=changed, lost=lost)


def _least(host: Rig, modules: Path) -> None:
    ovs = host.host.ovs
    argv = [sys.executable, "-c", IMPORT, str(modules)]
    subprocess.run(argv, env=environment(), check=True)
    for bridge in ("br-int", "br-tun"):
        ovs.ofctl("-O", "OpenFlow13", "dump-flows", ovs.management(bridge))
    ovs.run("ovsdb-client", "dump", ovs.remote)


def _changed(before: Mapping[str, float], after: Mapping[str, float]) -> int:
    """Return the number of flows that came, went, or were made again."""
    both = before.keys() & after.keys()
    again = sum(abs(before[flow] - after[flow]) > _CLOSE for flow in both)
    return len(before.keys() ^ after.keys()) + again


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1:]))
    run_alone("benchmarks.l2.restart", partial(figures, chosen or SIZES))
