"""From unplugged to reported DOWN, against the `ovs-vsctl` that unplugs without an agent.

All ports are unplugged by one ``ovs-vsctl``, which ends when the switch has removed their devices;
meanwhile the switch executes nothing.  The agent's clock runs from the start of the ``ovs-vsctl``
until it has reported all of them as down, and until it says that it has removed their flows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

from attrs import frozen

from benchmarks.figure import Figure, ratio
from benchmarks.l2.rig import Rig, rig, run_alone, seconds
from netfw.testing.lab.wait import wait_until

SIZE = 200
ROUNDS = 2
"""How often either side is measured; the shortest counts."""
DOWN, REMOVED = 0.5, 1.2
_POLL = 0.05
"""Seconds after which the file source writes what was reported."""


@frozen
class Unplugging:
    """Seconds until all ports were reported as down, and until their flows were removed."""

    down: float
    removed: float


def figures() -> Iterator[Figure]:
    """Yield the figures of this file."""
    raw, own = [], []
    for _ in range(ROUNDS):
        with rig(poll=_POLL) as (host, _, _):
            _fill(host)
            own.append(_own(host))
        with rig(poll=_POLL) as (host, _, _):
            _fill(host)
            host.stop()
            raw.append(seconds(partial(_unplug, host)))
    down, removed = (min(getattr(each, name) for each in own) for name in ("down", "removed"))
    name = f"l2: {SIZE} ports unplugged at once until"
    yield ratio(f"{name} reported DOWN", own=down, raw=min(raw), target=DOWN)
    yield ratio(f"{name} their flows are gone", own=removed, raw=min(raw), target=REMOVED)


def _fill(host: Rig) -> None:
    numbers = range(1, SIZE + 1)
    host.want(numbers)
    start = host.mark()
    host.plug(numbers)
    wait_until(lambda: host.passed(start)[0] >= SIZE, "the wiring")
    wait_until(lambda: not host.down(), "the reports")
    time.sleep(2)


def _own(host: Rig) -> Unplugging:
    mark, start = host.mark(), time.perf_counter()
    unplugging = threading.Thread(target=_unplug, args=(host,))
    unplugging.start()
    wait_until(lambda: host.down() >= SIZE, "the reports", pause=0.01)
    down = time.perf_counter() - start
    wait_until(lambda: host.passed(mark)[2] >= SIZE, "the removal", pause=0.01)
    removed = time.perf_counter() - start
    unplugging.join()
    return Unplugging(down, removed)


def _unplug(host: Rig) -> None:
    host.unplug(range(1, SIZE + 1), at_once=SIZE)


if __name__ == "__main__":
    run_alone("benchmarks.l2.unplug", figures)
