"""Metrics of an agent in the Prometheus text format, for a collector of text files."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import asdict
from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from netfw.agents.common.status import AgentStatus, PublishedFile

LABELS = ("agent", "host")


class MetricsFile(PublishedFile):
    """A file with the metrics of an agent; when the agent ends, none is better than an old one."""

    CONTENT = "metrics"

    def _write(self, status: AgentStatus) -> None:
        registry = CollectorRegistry()
        registry.register(_StatusCollector(status))
        write_to_textfile(str(self._path), registry)


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
        counts = GaugeMetricFamily(
            "netfw_agent_resources", "Resources on the host.", labels=(*LABELS, "kind")
        )
        for kind, count in status.counts.items():
            counts.add_metric((*labels, kind), count)
        yield counts
