"""Tracer that exports spans by OpenTelemetry's OTLP over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from netfw import request_id
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable
from netfw.tracing import Span

LOG = logging.getLogger(__name__)

HEADER = "traceparent"
QUEUE = 4096
"""Spans that wait for the exporter; further ones are dropped."""
EXPORT_EVERY = 1.0
TIMEOUT = 5.0
"""Seconds for an export."""
CLOSE_TIMEOUT = 2.0
"""Seconds that an ending process has for its last spans."""


class OtelTracer:
    """Records spans, and exports them by a thread of its own.

    A receiver that is away or slow costs spans, never time of the process.
    """

    def __init__(self, endpoint: str, ratio: float, *, program: str, host: str) -> None:
        attributes = {"service.name": program, "host.name": host}
        attributes["service.version"] = version("netfw")
        self._provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(ratio),
            resource=Resource.create(attributes),
            shutdown_on_exit=False,
        )
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter,
                max_queue_size=QUEUE,
                schedule_delay_millis=EXPORT_EVERY * 1000,
            )
        )
        self._tracer = self._provider.get_tracer("netfw", version("netfw"))
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self, name: str, parents: Sequence[str], attributes: dict[str, str | int]
    ) -> Iterator[Span]:
        """Record a span for a block; further *parents* are links of it."""
        if own_id := request_id.current():
            attributes["netfw.request_id"] = own_id
        contexts = [self._propagator.extract({HEADER: each}) for each in parents]
        links = [trace.Link(_span_context(each)) for each in contexts[1:]]
        with self._tracer.start_as_current_span(
            name, context=contexts[0] if contexts else None, attributes=attributes, links=links
        ) as recorded:
            yield _OtelSpan(recorded)

    def current(self) -> str:
        """Return the context of the current span; empty outside any."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get(HEADER, "")

    def close(self) -> None:
        """Export what is left, for a moment."""
        try:
            failure = "tracing: the last spans are lost"
            closing = start_daemon_thread("otel-end", failure, self._provider.shutdown)
        except BackendUnavailable as exc:
            LOG.warning("%s", exc)
            return
        closing.join(CLOSE_TIMEOUT)
        if closing.is_alive():
            LOG.warning("tracing: the last spans were not received within %g s", CLOSE_TIMEOUT)
            self._exporter.shutdown()  # ends its retries
            closing.join(CLOSE_TIMEOUT)


class _OtelSpan:
    def __init__(self, recorded: trace.Span) -> None:
        self._recorded = recorded

    def set(self, name: str, value: str | int | float) -> None:
        self._recorded.set_attribute(name, value)


def _span_context(context: Context) -> trace.SpanContext:
    return trace.get_current_span(context).get_span_context()
