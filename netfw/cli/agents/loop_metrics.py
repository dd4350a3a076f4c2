"""Metrics of what the loop of an agent did, beside those of its status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from netfw.agents.common.agent import ConvergeResult
from netfw.agents.common.loop_observer import LoopObserver
from netfw.cli.agents.metrics_file import LABELS

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class LoopMetrics(LoopObserver, Collector):
    """Durations of passes, failures by the class of the error, and the last answer of the source.

    The labels are bounded: classes of errors are those of `netfw.errors` and of drivers.
    """

    def __init__(self, binary: str, host: str) -> None:
        labels = (binary, host)
        self._seconds = Histogram(
            "netfw_agent_pass_duration_seconds",
            "How long convergence passes took.",
            LABELS,
            buckets=SECONDS,
            registry=None,
        )
        self._failures = Counter(
            "netfw_agent_key_failures",
            "Keys that failed in a pass, by the class of the error.",
            (*LABELS, "error"),
            registry=None,
        )
        self._pulled = Gauge(
            "netfw_agent_last_pull_timestamp_seconds",
            "When the source has last answered.",
            LABELS,
            registry=None,
        )
        self._labels = labels
        self._metrics = (self._seconds, self._failures, self._pulled)
        for each in (self._seconds, self._pulled):
            each.labels(*labels)
        self._failures.labels(*labels, "BackendUnavailable")

    def passed(self, result: ConvergeResult[Any], seconds: float) -> None:
        self._seconds.labels(*self._labels).observe(seconds)
        for error in result.outcome.failed.values():
            self._failures.labels(*self._labels, type(error).__name__).inc()

    def pulled(self) -> None:
        self._pulled.labels(*self._labels).set_to_current_time()

    def collect(self) -> Iterator[Metric]:
        for each in self._metrics:
            yield from each.collect()
