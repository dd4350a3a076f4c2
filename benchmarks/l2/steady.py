"""What an agent with many ports costs: at rest, and for one port more.

The CPU for one port more is that of the agent alone, all its threads, from before the port is
plugged until some time after it was wired, less what it uses in such a time at rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import median

from benchmarks.figure import Figure, megabytes, percent
from benchmarks.l2.rig import Rig, rig, run_alone
from netfw.testing.lab.wait import wait_until

SIZES = (10, 200, 500, 1000)
ADDED = 10
TARGET = 1.2
REST = 20.0
IDLE = 1.0
MEGABYTES = 130.0
_AFTER = 0.5


def figures(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Yield the figures of this file."""
    cost: dict[int, float] = {}
    for size in sizes:
        with rig() as (host, _, _):
            _fill(host, size)
            if size == max(sizes):
                yield from _at_rest(host, size)
            cost[size] = median(_one_more(host, number) for number in _more(size))
    few, many = min(sizes), max(sizes)
    yield Figure(
        name=f"l2: CPU for one port more, {many} over {few} ports",
        measured=cost[many] / cost[few],
        target=TARGET,
        raw_seconds=cost[few],
        own_seconds=cost[many],
        sizes={size: (cost[few], seconds) for size, seconds in cost.items()},
    )


def _more(size: int) -> range:
    return range(size + 1, size + ADDED + 1)


def _fill(host: Rig, size: int) -> None:
    host.want(range(1, size + ADDED + 1))
    start = host.mark()
    host.plug(range(1, size + 1))
    wait_until(lambda: host.passed(start)[0] >= size, "the wiring")
    time.sleep(3)


def _at_rest(host: Rig, size: int) -> Iterator[Figure]:
    before = host.cpu()
    time.sleep(REST)
    share = (host.cpu() - before) / REST
    yield percent(f"l2: CPU at rest with {size} ports", share, IDLE)
    yield megabytes(f"l2: memory with {size} ports", host.resident(), MEGABYTES)


def _one_more(host: Rig, number: int) -> float:
    start, before = host.mark(), host.cpu()
    host.plug([number])
    wait_until(lambda: host.passed(start)[0] >= 1, "the wiring of one more")
    time.sleep(_AFTER)
    return host.cpu() - before


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[1:]))
    run_alone("benchmarks.l2.steady", partial(figures, chosen or SIZES))
