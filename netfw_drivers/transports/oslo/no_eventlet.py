"""oslo.messaging with plain threads: imported through here, it does not bring eventlet along.

Where eventlet is installed, by whatever else needs it, oslo.service would choose it and oslo.utils
would load it.  Nothing is patched in any case; but a module that is not loaded has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without_eventlet() -> Iterator[None]:
    if "eventlet" in sys.modules:  # the process uses it already
        yield
        return
    sys.modules["eventlet"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["eventlet"]


with _without_eventlet():
    from oslo_service import backend

    if backend.get_backend_type() is None:
        backend.init_backend(backend.BackendType.THREADING)
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
