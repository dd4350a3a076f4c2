"""Metrics of the server in the Prometheus text format."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
    multiprocess,
)

from netfw.errors import NetfwError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOG = logging.getLogger(__name__)

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory in which several processes share counters."""
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

TEXTS = {
    "netfw_database_up": "1 if the database answered this scrape, else 0.",
    "netfw_database_probe_seconds": "Seconds that the database took for this scrape.",
    "netfw_agents_alive": "Agents whose last heartbeat is within [scheduling] agent_down_time.",
    "netfw_agents_dead": "Agents whose last heartbeat is older than [scheduling] agent_down_time.",
    "netfw_journal_commits": "Sequence number of the newest commit in the journal.",
    "netfw_outbox_waiting": "Deliveries that wait in the outbox.",
    "netfw_outbox_refused": "Deliveries in the outbox that their target refused.",
    "netfw_outbox_oldest_seconds": "Age of the oldest delivery in the outbox.",
}
"""Help texts of gauges."""

State = Callable[[], Mapping[str, float]]
"""Gauges by name, such as the number of live agents."""


class Metrics:
    """Request counters, and gauges that are read at each scrape."""

    def __init__(self, collections: Collection[str], state: State) -> None:
        self._registry = CollectorRegistry()
        self._collections, self._state = frozenset(collections), state
        self._requests = Counter(
            "netfw_api_requests_total",
            "Requests, by method, collection and status.",
            ("method", "collection", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "netfw_api_request_seconds",
            "Seconds until a request was answered.",
            ("method", "collection"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._calls = Counter(
            "netfw_rpc_requests_total",
            "Requests of agents, by method and the class of the error, if there was one.",
            ("method", "error"),
            registry=self._registry,
        )
        self._call_seconds = Histogram(
            "netfw_rpc_request_seconds",
            "Seconds until a request of an agent was answered.",
            ("method",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._gauges: dict[str, Gauge] = {}
        if not os.environ.get(SHARED):
            ProcessCollector(registry=self._registry)

    def counting(self, app: WSGIApplication) -> WSGIApplication:
        """Wrap *app* so that its requests are counted."""

        def counted(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            began, statuses = time.perf_counter(), ["500"]

            def noted(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                statuses[0] = status[:3]
                return start(status, headers, *rest)

            try:
                return app(environ, noted)
            finally:
                method, collection = self._labels(environ)
                self._requests.labels(method, collection, statuses[0]).inc()
                self._seconds.labels(method, collection).observe(time.perf_counter() - began)

        return counted

    def count_call(self, method: str, seconds: float, error: str) -> None:
        """Count a request of an agent."""
        self._calls.labels(method, error).inc()
        self._call_seconds.labels(method).observe(seconds)

    def text(self) -> bytes:
        """Render all metrics.

        While the database does not answer, its gauges keep their values, and one says so.
        """
        began, answers = time.perf_counter(), 1.0
        try:
            for name, value in self._state().items():
                self._gauge(name).set(value)
        except NetfwError as exc:
            LOG.warning("metrics lack the state of the database: %s", exc)
            answers = 0.0
        self._gauge("netfw_database_up").set(answers)
        self._gauge("netfw_database_probe_seconds").set(time.perf_counter() - began)
        if not os.environ.get(SHARED):
            return generate_latest(self._registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)

    def _labels(self, environ: WSGIEnvironment) -> tuple[str, str]:
        """Return labels of bounded cardinality, whatever path is requested."""
        method = environ.get("REQUEST_METHOD", "")
        method = method if method in {"GET", "POST", "PUT", "DELETE", "HEAD"} else "other"
        steps = environ.get("PATH_INFO", "").split("/")
        paths = ("/".join(steps[2:end]).removesuffix(".json") for end in (3, 4))
        return method, next((path for path in paths if path in self._collections), "other")

    def _gauge(self, name: str) -> Gauge:
        if name not in self._gauges:
            self._gauges[name] = Gauge(
                name,
                TEXTS.get(name, name.removeprefix("netfw_").replace("_", " ")),
                registry=self._registry,
                multiprocess_mode="mostrecent",
            )
        return self._gauges[name]
