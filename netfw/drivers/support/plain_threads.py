"""Libraries of OpenStack with plain threads, where eventlet is installed by whatever else needs it.

oslo.service would choose it, and oslo.utils would load it.  Nothing is patched in any case; but a
module that is not loaded has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_eventlet() -> Iterator[None]:
    """Import modules as if eventlet were not installed, and have oslo.service use threads."""
    if "eventlet" in sys.modules:  # the process uses it already
        _choose_threads()
        yield
        return
    sys.modules["eventlet"] = None  # type: ignore[assignment]
    try:
        _choose_threads()
        yield
    finally:
        del sys.modules["eventlet"]


def _choose_threads() -> None:
    from oslo_service import backend

    if backend.get_backend_type() is None:
        backend.init_backend(backend.BackendType.THREADING)
