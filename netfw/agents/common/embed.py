"""An agent in a thread of an embedding program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netfw.agents.common.loop import Loop
from netfw.drivers.support.daemon_thread import start_daemon_thread


@contextmanager
def run_in_thread(loop: Loop[Any]) -> Iterator[Loop[Any]]:
    """Run *loop* in a thread within the ``with`` statement; stop and join it at the end.

    :raises BackendUnavailable: the machine has no thread left.
    :raises ConfigError: the error that ended the loop, when the statement is left.
    """
    ends: list[BaseException] = []

    def run() -> None:
        try:
            loop.run()
        except BaseException as exc:  # noqa: BLE001 - handed to the thread that waits for it
            ends.append(exc)

    name = f"{loop.status.binary}-{loop.status.host}"
    thread = start_daemon_thread(name, f"{name} cannot be run", run)
    try:
        yield loop
    finally:
        loop.stop()
        thread.join()
    for end in ends:
        raise end
