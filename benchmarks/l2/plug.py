"""From plugged to wired, against the same rows by `ovs-vsctl` and the same flows by one bundle.

Both sides begin with nothing plugged on a switch that the agent has set up; for the raw side it is
stopped then.  The agent's clock runs from the start of the ``ovs-vsctl`` that plugs the ports,
which names no VLAN, until the agent says that they are wired; the raw one's for an ``ovs-vsctl``
that plugs them with all that the agent has written to their rows, and for ``ovs-ofctl --bundle``
with the flows that it made.  Two other ports ping each other a hundred times a second meanwhile.

The round trips that must stay short are those while the agent works: while ports that are plugged
are wired because the source states them, and while ports are taken away from it.  Plugging and
unplugging many userspace ports at once stops the switch by itself, whoever does it; there the
round trips are compared with those without an agent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from benchmarks.figure import Figure, milliseconds, percent, ratio
from benchmarks.l2.rig import Rig, rig, run_alone
from netfw.testing.lab.wait import wait_until

SIZES = {50: 2, 200: 3, 500: 1, 1000: 2}
"""How often each size is measured, on either side; the shortest counts."""
TARGETS = {200: 5.0, 1000: 3.0}
RTT = 100.0
BESIDE = 1.5
EARLY = 30.0
REMOVED = 500
ROUNDS = 3
"""How often round trips are measured; the round whose longest is the shortest counts."""


@frozen
class Run:
    """Seconds until the ports were wired, and the longest round trip of others meanwhile."""

    seconds: float
    longest: float
    early: float = 0.0
    """Share of the agent's CPU that it used before ``ovs-vsctl`` ended."""


@frozen
class Work:
    """What a run of the agent came to: rows of ports, and flows by bridge."""

    rows: dict[str, list[str]]
    flows: dict[str, list[str]]


def figures(sizes: dict[int, int] | None = None) -> Iterator[Figure]:
    """Yield the figures of this file."""
    found = {size: _shortest(size, rounds) for size, rounds in (sizes or SIZES).items()}
    times = {size: (raw.seconds, own.seconds) for size, (raw, own) in found.items()}
    for size, (raw, own) in found.items():
        if size in TARGETS:
            yield ratio(
                f"l2: {size} ports from plugged to wired",
                own=own.seconds,
                raw=raw.seconds,
                target=TARGETS[size],
                sizes=times if size == max(found) else None,
            )
            yield _beside(f"l2: longest ping, {size} plugged at once", raw.longest, own.longest)
            name = f"l2: share of the agent's CPU while {size} are plugged"
            yield percent(name, own.early, EARLY)
    idle, wired, removed, unplugged = _others()
    name = f"l2: ping while {REMOVED}"
    yield milliseconds(f"{name} plugged ports are wired", wired, RTT, idle)
    yield milliseconds(f"{name} ports are removed", removed, RTT, idle)
    yield _beside("l2: longest ping, ports unplugged by tens", *unplugged)


def _beside(name: str, raw: float, own: float) -> Figure:
    """Return a ratio for a moment in which the switch itself stops: its pause with the agent."""
    return ratio(name, own=own, raw=raw, target=BESIDE)


def _shortest(size: int, rounds: int) -> tuple[Run, Run]:
    raw, own = [], []
    for _ in range(rounds):
        run, work = _own(size)
        own.append(run)
        raw.append(_raw(size, work))
    return min(raw, key=lambda run: run.seconds), min(own, key=lambda run: run.seconds)


def _own(size: int) -> tuple[Run, Work]:
    numbers = range(1, size + 1)
    with rig() as (host, instance, target):
        host.want(numbers)
        before, start = host.flows(), host.mark()
        cpu = [host.cpu()]

        def work() -> None:
            host.plug(numbers)
            cpu.append(host.cpu())
            wait_until(lambda: host.passed(start)[0] >= size, "the wiring", pause=0.005)

        with instance.pinging(target) as ping:
            run = _timed(work, ping.stop)
        run = evolve(run, early=(cpu[1] - cpu[0]) / (host.cpu() - cpu[0]))
        made = host.flows() - before
        flows: dict[str, list[str]] = {}
        for line in sorted(made):
            bridge, _, flow = line.partition(" ")
            flows.setdefault(bridge, []).append(flow)
        return run, Work(host.rows(), flows)


def _raw(size: int, work: Work) -> Run:
    with rig() as (host, instance, target):
        host.stop()
        files = {bridge: host.directory / f"{bridge}.flows" for bridge in work.flows}
        for bridge, path in files.items():
            path.write_text("".join(f"{flow}\n" for flow in work.flows[bridge]))
        with instance.pinging(target) as ping:
            return _timed(partial(_raw_work, host, size, work, files), ping.stop)


def _raw_work(host: Rig, size: int, work: Work, files: dict[str, Path]) -> None:
    ovs = host.host.ovs
    host.plug(range(1, size + 1), work.rows)
    for bridge, path in files.items():
        ovs.ofctl("-O", "OpenFlow14", "--bundle", "add-flows", ovs.management(bridge), str(path))


def _timed(work: Callable[[], None], stop: Callable[[], object]) -> Run:
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    time.sleep(0.2)
    return Run(seconds, stop().longest or float("inf"))  # type: ignore[attr-defined]


def _others() -> tuple[float, float, float, tuple[float, float]]:
    """Return the longest round trips: idle, while wired, while removed, while unplugged."""
    numbers = range(1, 2 * REMOVED + 1)
    gone, stay = numbers[:REMOVED], numbers[REMOVED:]
    with rig() as (host, instance, target):
        host.prefer_switch()
        start = host.mark()
        host.want(stay)
        host.plug(numbers)
        _await_wired(host, start)
        time.sleep(2)

        def during(work: Callable[[], None]) -> float:
            with instance.pinging(target) as ping:
                return _timed(work, ping.stop).longest

        def wire() -> None:
            start = host.mark()
            host.state(numbers)
            _await_wired(host, start)

        def remove() -> None:
            start = host.mark()
            host.state(stay)
            wait_until(lambda: host.passed(start)[2] >= REMOVED, "the removal", pause=0.005)

        idle = during(lambda: time.sleep(2))
        wired, removed = [], []
        for _ in range(ROUNDS):
            wired.append(during(wire))
            removed.append(during(remove))
        wire()
        fifth = REMOVED // 5
        unplugged = during(partial(host.unplug, gone[:fifth]))
        host.stop()
        without = during(partial(host.unplug, gone[fifth : 2 * fifth]))
        return idle, min(wired), min(removed), (without, unplugged)


def _await_wired(host: Rig, start: int) -> None:
    """Wait until half of the ports are wired since *start*."""
    wait_until(lambda: host.passed(start)[0] >= REMOVED, "the wiring of half of them", pause=0.005)


if __name__ == "__main__":
    chosen = {int(size): 1 for size in sys.argv[1:]}
    run_alone("benchmarks.l2.plug", partial(figures, chosen or None))
