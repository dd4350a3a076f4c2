"""Several processes of one program, which share its listening sockets.

The first process opens the sockets and begins workers; it serves nothing itself.  A worker is the
same program, told by its environment what it inherits.  It ends with the first process, however
that ends: a pipe between them breaks.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import define

from netfw.drivers.transport import SharedAddress

LOG = logging.getLogger(__name__)

VARIABLE: Final = "NETFW_WORKER"
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
LONG_ENOUGH: Final = 60.0
"""A worker that lived so long did not fail because of how it was begun: no pause grows."""


@define
class InheritedSockets:
    """What a worker has from the process that began it."""

    number: int
    sockets: Mapping[str, socket.socket]
    options: Mapping[str, str]
    """Of its transport, over those of the files."""
    lifeline: int
    """The end of a pipe that breaks when that process ends."""
    on_lost: Callable[[], None] = lambda: os._exit(0)
    """What to do then.  A worker that still starts ends at once: it would keep the sockets."""

    def watch(self) -> None:
        """Call ``on_lost`` when the process that began this one is gone."""

        def wait() -> None:
            os.read(self.lifeline, 1)
            self.on_lost()

        threading.Thread(target=wait, name="lifeline", daemon=True).start()


def inherited(environment: Mapping[str, str] = os.environ) -> InheritedSockets | None:
    """What this process inherits; ``None``: it is no worker."""
    text = environment.get(VARIABLE)
    if text is None:
        return None
    told = json.loads(text)
    sockets = {name: socket.socket(fileno=number) for name, number in told["sockets"].items()}
    return InheritedSockets(told["number"], sockets, told["options"], told["lifeline"])


@define
class Worker:
    """One of the processes, and how often it ended by itself lately."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0
    failures: int = 0
    again_at: float = 0.0


class PreforkSupervisor:
    """Begins *count* workers of *command*, begins those again that end, and ends all.

    *shared* is what their transport needs from the one of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        sockets: Mapping[str, socket.socket],
        shared: SharedAddress | None = None,
    ) -> None:
        self._command, self._sockets = list(command), dict(sockets)
        self._shared = shared or SharedAddress()
        self._workers = [Worker(number) for number in range(1, count + 1)]
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._lock = threading.Lock()

    def run(self, stop: threading.Event, *, grace: float) -> None:
        """Keep them running until *stop*; then give them *grace* seconds to finish."""
        try:
            while not stop.wait(0.2):
                for worker in self._workers:
                    self._look_after(worker)
        finally:
            self._end(grace)

    def reload(self) -> None:
        """Have each read its files again."""
        self._tell(signal.SIGHUP)

    def pids(self) -> list[int]:
        """Of those that run."""
        with self._lock:
            return [
                worker.process.pid
                for worker in self._workers
                if worker.process is not None and worker.process.poll() is None
            ]

    def _look_after(self, worker: Worker) -> None:
        if worker.process is not None:
            status = worker.process.poll()
            if status is None:
                return
            lived = time.monotonic() - worker.begun
            worker.failures = 0 if lived > LONG_ENOUGH else worker.failures + 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**worker.failures)
            LOG.error(
                "worker %d (process %d) ended with status %s after %.0f s; again in %.1f s",
                worker.number,
                worker.process.pid,
                status,
                lived,
                pause,
            )
            worker.process, worker.again_at = None, time.monotonic() + pause
        if time.monotonic() >= worker.again_at:
            self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        sockets = {name: each.fileno() for name, each in self._sockets.items()}
        told = {
            "number": worker.number,
            "sockets": sockets,
            "options": dict(self._shared.options),
            "lifeline": self._read,
        }
        with self._lock:
            worker.begun = time.monotonic()
            worker.process = subprocess.Popen(
                self._command,
                env={**os.environ, VARIABLE: json.dumps(told)},
                pass_fds=[self._read, *sockets.values(), *self._shared.descriptors],
            )
        LOG.info("worker %d is process %d", worker.number, worker.process.pid)

    def _tell(self, number: signal.Signals) -> None:
        with self._lock:
            for worker in self._workers:
                if worker.process is not None and worker.process.poll() is None:
                    worker.process.send_signal(number)

    def _end(self, grace: float) -> None:
        self._tell(signal.SIGTERM)
        deadline = time.monotonic() + grace
        for worker in self._workers:
            if worker.process is None:
                continue
            try:
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                LOG.warning("worker %d did not end in %.0f s: killed", worker.number, grace)
                worker.process.kill()
                worker.process.wait()
        for descriptor in (self._read, self._write):
            os.close(descriptor)
