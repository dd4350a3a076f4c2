"""Worker processes of one program that share its listening sockets.

The parent opens the sockets and starts workers; it serves no request itself. A worker is the same
program; its environment says what it inherits. A worker ends with the parent, however that ends:
a pipe between them breaks.
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
STUCK_AFTER: Final = 60.0
"""Seconds without a check of the workers after which the supervisor counts as stuck."""
LONG_ENOUGH: Final = 60.0
"""Seconds of life after which the failure of a worker no longer increases the back-off."""


@define
class InheritedSockets:
    """Sockets and options that a worker inherits from its parent."""

    number: int
    sockets: Mapping[str, socket.socket]
    options: Mapping[str, str]
    """Options of its transport; they override those of the files."""
    lifeline: int
    """End of a pipe that breaks when the parent ends."""
    on_lost: Callable[[], None] = lambda: os._exit(0)
    """Called then. A worker that is still starting exits at once: it would keep the sockets."""

    def watch(self) -> None:
        """Call ``on_lost`` when the parent is gone."""

        def wait() -> None:
            os.read(self.lifeline, 1)
            self.on_lost()

        threading.Thread(target=wait, name="lifeline", daemon=True).start()


def inherited(environment: Mapping[str, str] = os.environ) -> InheritedSockets | None:
    """Return what this process inherits; ``None`` when it is no worker."""
    text = environment.get(VARIABLE)
    if text is None:
        return None
    inherited = json.loads(text)
    sockets = {name: socket.socket(fileno=number) for name, number in inherited["sockets"].items()}
    return InheritedSockets(
        inherited["number"], sockets, inherited["options"], inherited["lifeline"]
    )


@define
class Worker:
    """A worker process and its recent failures."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0
    failures: int = 0
    again_at: float = 0.0


class PreforkSupervisor:
    """Starts *count* workers of *command*, restarts those that end, and stops all.

    *shared* is what their transport needs from the transport of this process.
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
        self._turned_at = time.monotonic()

    def stuck_reason(self) -> str:
        """Return why ended workers are not started again; empty when they are."""
        stalled = time.monotonic() - self._turned_at
        return f"workers were not checked for {stalled:.0f} s" if stalled > STUCK_AFTER else ""

    def run(self, stop: threading.Event, *, grace: float) -> None:
        """Run the workers until *stop*; then give them *grace* seconds to finish."""
        try:
            while not stop.wait(0.2):
                self._turned_at = time.monotonic()
                for worker in self._workers:
                    self._check(worker)
        finally:
            self._end(grace)

    def reload(self) -> None:
        """Make each worker reload its files."""
        self._signal(signal.SIGHUP)

    def pids(self) -> list[int]:
        """Pids of the running workers."""
        with self._lock:
            return [
                worker.process.pid
                for worker in self._workers
                if worker.process is not None and worker.process.poll() is None
            ]

    def _check(self, worker: Worker) -> None:
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
            self._start(worker)

    def _start(self, worker: Worker) -> None:
        sockets = {name: each.fileno() for name, each in self._sockets.items()}
        inherited = {
            "number": worker.number,
            "sockets": sockets,
            "options": dict(self._shared.options),
            "lifeline": self._read,
        }
        with self._lock:
            worker.begun = time.monotonic()
            worker.process = subprocess.Popen(
                self._command,
                env={**os.environ, VARIABLE: json.dumps(inherited)},
                pass_fds=[self._read, *sockets.values(), *self._shared.descriptors],
            )
        LOG.info("worker %d is process %d", worker.number, worker.process.pid)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            for worker in self._workers:
                if worker.process is not None and worker.process.poll() is None:
                    worker.process.send_signal(number)

    def _end(self, grace: float) -> None:
        self._signal(signal.SIGTERM)
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
