"""What publishes the metrics of an agent: a file, a port, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

from netfw.agents.common.status import AgentStatus, Publish
from netfw.cli.agents.common import MetricsExporters, MetricsTargets
from netfw.cli.agents.loop_metrics import LoopMetrics
from netfw.cli.agents.metrics_file import MetricsFile
from netfw.cli.agents.metrics_port import MetricsPort


class AgentMetricsExporters(MetricsExporters):
    """The metrics file and the port of one agent, with what they publish.

    Leaving the context closes the port and removes the file.

    :raises ConfigError: nothing can listen at the address.
    :raises ModuleNotFoundError: a package for it is missing.
    """

    def __init__(
        self,
        metrics: MetricsTargets,
        binary: str,
        host: str,
        reasons: Callable[[AgentStatus], Iterable[tuple[str, str]]],
        stuck: Callable[[], str],
    ) -> None:
        self.observer = LoopMetrics(binary, host)
        targets: list[Publish] = []
        self._stack, more = ExitStack(), (self.observer,)
        if metrics.bind:
            port = MetricsPort(
                metrics.bind,
                AgentStatus(binary=binary, host=host),
                more,
                reasons=lambda status: [f"{what}: {reason}" for what, reason in reasons(status)],
                stuck=stuck,
            )
            self._stack.enter_context(port)
            targets.append(port)
        if metrics.file is not None:
            file = MetricsFile(metrics.file, more)
            self._stack.callback(file.remove)
            targets.append(file)
        self.targets = targets

    def __exit__(self, *_: object) -> None:
        self._stack.close()
