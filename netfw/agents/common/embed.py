"""An agent in a thread of an embedding program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netfw.agents.common.loop import Loop


@contextmanager
def run_in_thread(loop: Loop[Any]) -> Iterator[Loop[Any]]:
    """Run *loop* in a thread within the ``with`` statement; stop and join it at the end.

    :raises ConfigError: the error that ended the loop, when the statement is left.
    """
    ends: list[BaseException] = []

    def run() -> None:
        try:
            loop.run()
        except BaseException as exc:  # noqa: BLE001 - handed to the thread that waits for it
            ends.append(exc)

    thread = threading.Thread(target=run, name=f"{loop.status.binary}-{loop.status.host}")
    thread.start()
    try:
        yield loop
    finally:
        loop.stop()
        thread.join()
    for end in ends:
        raise end
