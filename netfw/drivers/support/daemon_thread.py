"""Threads that do not keep their process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec

from netfw.errors import BackendUnavailable

P = ParamSpec("P")


def start_daemon_thread(
    name: str, failure: str, target: Callable[P, object], *args: P.args, **kwargs: P.kwargs
) -> threading.Thread:
    """Start a daemon thread that calls *target*, and return it.

    :param failure: what cannot be done without the thread, for the error.
    :raises BackendUnavailable: the machine has no thread left.
    """
    thread = threading.Thread(target=target, args=args, kwargs=kwargs, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise BackendUnavailable(
            f"{failure}: {error}; raise the limit of threads or of memory of this service"
        ) from error
    return thread
