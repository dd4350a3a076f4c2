"""An agent's loop as the work of a process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from netfw.agents.common.agent import HostAgent
from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.status import AgentStatus, StatusFile
from netfw.cli.runtime.daemon import DaemonControl
from netfw.drivers.state_source import StateSource

PATIENCE = 2.0
"""Seconds that an agent which is to end has for what it is doing, and for its last reports."""


def run_loop(
    source: StateSource,
    work: HostAgent[Any],
    timing: Callable[[], Intervals],
    *,
    status: Path,
    orders: DaemonControl,
    let_go: Callable[[], None],
    within: float | None = None,
) -> int:
    """Run an agent as *orders* say, or until it is ready *within* so many seconds; its status.

    One that only becomes ready leaves the status file alone: it is that of an agent that stays.
    *let_go* has whoever waits for the source wait no longer: an agent that is to end does not do
    so for a server that is away.

    :raises ConfigError: the host contradicts the configuration.
    """
    if within is not None:
        loop = Loop(source, work, timing)
        _obey(orders, loop, let_go)
        return _become_ready(loop, within, let_go)
    publish = StatusFile(status)
    loop = Loop(source, work, timing, publish=publish)
    _obey(orders, loop, let_go)
    try:
        loop.run()
    finally:
        publish.remove()
    return 0


def _become_ready(loop: Loop[Any], within: float, let_go: Callable[[], None]) -> int:
    with run_in_thread(loop):
        if loop.wait_for(lambda status: status.ready, within):
            return 0
        obstacles = tuple(_obstacles(loop.status))
        _end(loop, let_go)
    for what, reason in obstacles or _obstacles(loop.status):
        print(f"{loop.status.binary}: {what}: {reason}", file=sys.stderr)
    return 1


def _obstacles(status: AgentStatus) -> Iterator[tuple[str, str]]:
    """Why an agent is not ready."""
    yield from status.errors.items()
    yield from status.degraded.items()
    for what, reason in status.waiting.items():
        yield what, f"waits: {reason}"


def _obey(orders: DaemonControl, loop: Loop[Any], let_go: Callable[[], None]) -> None:
    """Have *loop* end when it is to, and take new options at once, after whoever did so before."""
    others = orders.on_reload

    def reload() -> None:
        others()
        loop.wake()

    orders.on_reload = reload

    def end() -> None:
        orders.stop.wait()
        _end(loop, let_go)

    threading.Thread(target=end, daemon=True).start()


def _end(loop: Loop[Any], let_go: Callable[[], None]) -> None:
    loop.stop()
    if not loop.wait_for_end(PATIENCE):
        let_go()
