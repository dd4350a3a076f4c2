"""An agent's loop as the work of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netfw.agents.loop import Loop, Timing
from netfw.agents.status import StatusFile
from netfw.agents.thread import running
from netfw.agents.work import Work
from netfw.drivers.state_source import StateSource


def run_loop(
    source: StateSource,
    work: Work[Any],
    timing: Callable[[], Timing],
    *,
    status: Path,
    stop: threading.Event,
    within: float | None = None,
) -> int:
    """Run an agent until *stop*, or until it is ready, *within* so many seconds; the exit status.

    :raises ConfigError: the host contradicts the configuration.
    """
    publish = StatusFile(status)
    loop = Loop(source, work, timing, publish=publish)
    threading.Thread(target=_stop_after, args=(stop, loop.stop), daemon=True).start()
    if within is None:
        loop.run()
        publish.remove()
        return 0
    with running(loop):
        return 0 if loop.wait_for(lambda status: status.ready, within) else 1


def _stop_after(stop: threading.Event, end: Callable[[], None]) -> None:
    stop.wait()
    end()
