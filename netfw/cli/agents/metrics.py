"""Metrics of an agent in the Prometheus text format, for a collector of text files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from attrs import asdict
from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from netfw.agents.common.loop_tasks import LoopTask
from netfw.agents.common.status import AgentStatus

LOG = logging.getLogger(__name__)
LABELS = ("agent", "host")


class MetricsFile:
    """A file that always holds the metrics of one whole status.

    An agent that waits for the lock of a running one leaves the file to that one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warned = False
        self._written = False

    def __call__(self, status: AgentStatus) -> None:
        if LoopTask.LOCK in status.errors:
            return
        registry = CollectorRegistry()
        registry.register(_StatusCollector(status))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_to_textfile(str(self._path), registry)
        except OSError as exc:
            if not self._warned:
                LOG.warning("metrics file cannot be written: %s", exc)
            self._warned = True
        else:
            self._warned = False
            self._written = True

    def remove(self) -> None:
        """Remove the file, at the regular end of the agent: no metric is better than an old one."""
        if not self._written:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as exc:
            LOG.warning("metrics file cannot be removed: %s", exc)


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
