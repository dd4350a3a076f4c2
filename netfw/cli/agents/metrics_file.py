"""Metrics of an agent in the Prometheus text format, for a collector of text files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import asdict
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from netfw.agents.common.loop_tasks import LoopTask
from netfw.agents.common.status import AgentStatus, PublishedFile
from netfw.linux.fs.atomic_files import WriteFile, change_files

LABELS = ("agent", "host")


class MetricsFile(PublishedFile):
    """A file with the metrics of an agent, which collectors may read.

    Its directory may belong to the user of a collector: no link that another made is followed.
    When the agent ends, no file is better than an old one.
    """

    CONTENT = "metrics"

    def __init__(self, path: Path, more: Sequence[Collector] = ()) -> None:
        """*more* collectors have metrics that no status has."""
        super().__init__(path)
        self._more = more

    def _write(self, status: AgentStatus) -> None:
        text = generate_latest(make_registry(status, self._more)).decode()
        change_files([WriteFile(str(self._path), text)], self._path.parent)


def make_registry(status: AgentStatus, more: Sequence[Collector]) -> CollectorRegistry:
    """Return a registry with the metrics of a status, and those of *more* collectors."""
    registry = CollectorRegistry()
    for each in (_StatusCollector(status), *more):
        registry.register(each)
    return registry


class _StatusCollector(Collector):
    def __init__(self, status: AgentStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        gauges = {
            "ready": (status.ready, "Whether the host matches the desired state."),
            "lag_seconds": (status.lag, "Age of the oldest difference."),
            "errors": (len(status.errors), "Errors that concern the whole agent."),
            "warnings": (len(status.warnings), "Warnings for operators."),
            "degraded": (len(status.degraded), "Resources that failed and are retried."),
            "waiting": (len(status.waiting), "Resources that wait for something."),
            "pending": (status.pending, "Resources that are not converged."),
            "unsent_reports": (status.unsent, "Reports that the source has not received."),
        }
        labels = (status.binary, status.host)
        for name, (value, text) in gauges.items():
            gauge = GaugeMetricFamily(f"netfw_agent_{name}", text, labels=LABELS)
            gauge.add_metric(labels, float(value))
            yield gauge
        passes = CounterMetricFamily("netfw_agent_passes", "Passes of the loop.", labels=LABELS)
        passes.add_metric(labels, status.passes)
        yield passes
        keys = CounterMetricFamily(
            "netfw_agent_keys", "Keys by outcome, over all passes.", labels=(*LABELS, "outcome")
        )
        for outcome, count in asdict(status.total).items():
            keys.add_metric((*labels, outcome), count)
        yield keys
        yield _by_label("resources", "Resources on the host.", labels, "kind", status.counts)
        text = "Resources that the source has for this host."
        yield _by_label("desired_resources", text, labels, "kind", status.desired)
        failing = {task.name.lower(): int(task in status.errors) for task in LoopTask}
        text = "Whether a task of the loop failed and is retried."
        yield _by_label("task_failing", text, labels, "task", failing)


def _by_label(
    name: str, text: str, labels: Sequence[str], label: str, values: Mapping[str, int]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"netfw_agent_{name}", text, labels=(*LABELS, label))
    for value, number in values.items():
        gauge.add_metric((*labels, value), number)
    return gauge
