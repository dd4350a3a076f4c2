"""oslo.messaging with plain threads: imported through here, it does not bring eventlet along."""

from __future__ import annotations

from netfw.drivers.support.plain_threads import without_eventlet

with without_eventlet():
    import oslo_messaging
    from futurist import _thread as futurist_threads
    from oslo_messaging._metrics.client import oslo_messaging_metrics
    from oslo_messaging._tracing.client import oslo_messaging_tracing

__all__ = [
    "futurist_threads",
    "oslo_messaging",
    "oslo_messaging_metrics",
    "oslo_messaging_tracing",
]
