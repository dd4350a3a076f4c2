"""Options of distributed tracing, which every process has."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "tracing"

TRACING = (
    cfg.URIOpt(
        "otlp_endpoint",
        schemes=["http", "https"],
        help="URL to which spans of OpenTelemetry are sent by OTLP over HTTP, such as "
        "http://127.0.0.1:4318/v1/traces.  Unless set, nothing is recorded.",
    ),
    cfg.FloatOpt(
        "sample_ratio",
        default=1.0,
        min=0.0,
        max=1.0,
        help="Share of the API requests whose spans are recorded, unless the client decides by "
        "the header traceparent.",
    ),
)
