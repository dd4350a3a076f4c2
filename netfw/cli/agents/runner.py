"""Run the loop of an agent in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from netfw.agents.common.agent import HostAgent
from netfw.agents.common.embed import run_in_thread
from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.status import AgentStatus, Publish, StatusFile
from netfw.cli.agents.common import MetricsExporters, MetricsTargets
from netfw.cli.runtime.daemon import DaemonControl
from netfw.cli.runtime.watchdog import Watchdog
from netfw.drivers.state_source import StateSource
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import ConfigError

STOP_TIMEOUT = 2.0
"""Seconds that a stopping agent has for its current pass and its last reports."""
STUCK_AFTER = 300.0
"""Seconds after which a turn of the loop counts as stuck: no call that it makes waits so long."""


def run_loop(
    source: StateSource,
    work: HostAgent[Any],
    timing: Callable[[], Intervals],
    *,
    status: Path,
    metrics: MetricsTargets,
    control: DaemonControl,
    unblock: Callable[[], None],
    within: float | None = None,
) -> int:
    """Run an agent until *control* stops it, or until it is ready *within* seconds.

    A run that ends when ready does not write the status file, which belongs to the daemon.
    *unblock* unblocks calls of the state source, so that a stopping agent does not wait for a
    server that is away.

    :raises ConfigError: the host contradicts the configuration.
    """
    if within is not None:
        loop = Loop(source, work, timing)
        _follow(control, loop, unblock)
        return _become_ready(loop, within, unblock)
    file = StatusFile(status)
    with ExitStack() as stack:
        exporters = stack.enter_context(_make_exporters(metrics, work, lambda: stuck_reason(loop)))
        targets: list[Publish] = [file, *exporters.targets]

        def publish(published: AgentStatus) -> None:
            for target in targets:
                target(published)
            control.manager.set_status(summary(published))

        loop = Loop(source, work, timing, publish=publish, observer=exporters.observer)
        _follow(control, loop, unblock)
        stack.callback(file.remove)
        control.manager.set_ready()
        with Watchdog(control.manager, lambda: stuck_reason(loop)):
            loop.run()
    return 0


def _make_exporters(
    metrics: MetricsTargets, work: HostAgent[Any], stuck: Callable[[], str]
) -> MetricsExporters:
    """Make what publishes metrics, if anything does.

    :raises ConfigError: the package for it is missing, or nothing can listen at its address.
    """
    if metrics == MetricsTargets():
        return MetricsExporters()
    try:
        from netfw.cli.agents.metrics_exporters import AgentMetricsExporters
    except ModuleNotFoundError as exc:
        option = "metrics_bind" if metrics.bind else "metrics_file"
        raise ConfigError(f"[agent] {option}: pip install 'netfw[metrics]' ({exc})") from exc
    return AgentMetricsExporters(
        metrics, work.binary, work.subscription.host, unready_reasons, stuck
    )


def stuck_reason(loop: Loop[Any]) -> str:
    """Return why an agent does not get on with its work; empty when it does."""
    busy = loop.busy_for()
    return f"a turn of the loop takes {busy:.0f} s" if busy > STUCK_AFTER else ""


def summary(status: AgentStatus) -> str:
    """Return the status in a line."""
    if status.errors:
        what, reason = next(iter(status.errors.items()))
        return f"{what}: {reason}"
    if status.ready:
        return "ready"
    counts = f"degraded: {len(status.degraded)}, waiting: {len(status.waiting)}"
    first = next((f"; {what}: {reason}" for what, reason in unready_reasons(status)), "")
    return f"converging; {counts}{first}"


def _become_ready(loop: Loop[Any], within: float, unblock: Callable[[], None]) -> int:
    with run_in_thread(loop):
        if loop.wait_for(lambda status: status.ready, within):
            return 0
        reasons = tuple(unready_reasons(loop.status))
        _end(loop, unblock)
    for what, reason in reasons or unready_reasons(loop.status):
        print(f"{loop.status.binary}: {what}: {reason}", file=sys.stderr)
    return 1


def unready_reasons(status: AgentStatus) -> Iterator[tuple[str, str]]:
    """Yield why an agent is not ready."""
    yield from status.errors.items()
    yield from status.degraded.items()
    for what, reason in status.waiting.items():
        yield what, f"waits: {reason}"


def _follow(control: DaemonControl, loop: Loop[Any], unblock: Callable[[], None]) -> None:
    """Stop *loop* on request, and apply new options at once, after the callbacks set before."""
    others = control.on_reload

    def reload() -> None:
        others()
        loop.wake()

    control.on_reload = reload

    def end() -> None:
        control.stop.wait()
        _end(loop, unblock)

    start_daemon_thread("stop", "the agent could not be stopped", end)


def _end(loop: Loop[Any], unblock: Callable[[], None]) -> None:
    loop.stop()
    if not loop.wait_for_end(STOP_TIMEOUT):
        unblock()
