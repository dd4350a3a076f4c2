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
from contextlib import suppress
from typing import Final

from attrs import define

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.transport import SharedAddress

LOG = logging.getLogger(__name__)

VARIABLE: Final = "NETFW_WORKER"
FIRST_PAUSE, LONGEST_PAUSE, MOST_DOUBLINGS = 0.2, 30.0, 10
SILENCE: Final = 120.0
"""Seconds without a sign of life after which a worker that serves is killed."""
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
    signs: int
    """End of a pipe for signs of life."""
    watchdog: float | None
    """Seconds without one after which the parent kills this worker; from the first one on."""
    on_lost: Callable[[], None] = lambda: os._exit(0)
    """Called then. A worker that is still starting exits at once: it would keep the sockets."""

    def report_alive(self) -> None:
        """Report to the parent that this worker is alive."""
        with suppress(OSError):  # the parent is gone, or has not read the former signs
            os.write(self.signs, b".")

    def watch(self) -> None:
        """Call ``on_lost`` when the parent is gone.

        :raises BackendUnavailable: the machine has no thread left.
        """

        def wait() -> None:
            os.read(self.lifeline, 1)
            self.on_lost()

        start_daemon_thread("lifeline", f"worker {self.number} cannot be started", wait)


def inherited(environment: Mapping[str, str] = os.environ) -> InheritedSockets | None:
    """Return what this process inherits; ``None`` when it is no worker."""
    text = environment.get(VARIABLE)
    if text is None:
        return None
    inherited = json.loads(text)
    sockets = {name: socket.socket(fileno=number) for name, number in inherited["sockets"].items()}
    return InheritedSockets(
        inherited["number"],
        sockets,
        inherited["options"],
        inherited["lifeline"],
        inherited["signs"],
        inherited["watchdog"],
    )


@define
class Worker:
    """A worker process and its recent failures."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    signs: int | None = None
    """The parent's end of the pipe for signs of life."""
    alive_at: float | None = None
    """When it last gave one; ``None``: it does not serve yet."""
    begun: float = 0.0
    failures: int = 0
    down_since: float | None = None
    """When it first failed since it last served or ran for `LONG_ENOUGH`; ``None``: it did not."""
    again_at: float = 0.0


class PreforkSupervisor:
    """Starts *count* workers of *command*, restarts those that end or hang, and stops all.

    *shared* is what their transport needs from the transport of this process.  A worker hangs that
    has served, and gives no sign of life for *silence* seconds.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        sockets: Mapping[str, socket.socket],
        shared: SharedAddress | None = None,
        *,
        silence: float = SILENCE,
    ) -> None:
        self._command, self._sockets = list(command), dict(sockets)
        self._shared, self._silence = shared or SharedAddress(), silence
        self._workers = [Worker(number) for number in range(1, count + 1)]
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._turned_at = time.monotonic()

    def stuck_reason(self) -> str:
        """Return why workers are not started again, or none of them works; empty otherwise."""
        now = time.monotonic()
        if (stalled := now - self._turned_at) > STUCK_AFTER:
            return f"workers were not checked for {stalled:.0f} s"
        down = [worker.down_since for worker in self._workers]
        lasted = min((now - each if each is not None else 0.0 for each in down), default=0.0)
        return f"no worker has served for {lasted:.0f} s" if lasted > STUCK_AFTER else ""

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
        """Return the pids of the running workers."""
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
                self._kill_silent(worker, worker.process)
                return
            lived = time.monotonic() - worker.begun
            if lived > LONG_ENOUGH:
                worker.failures, worker.down_since = 0, None
            else:
                worker.failures += 1
                worker.down_since = worker.down_since or time.monotonic()
            pause = _pause_after(worker.failures)
            LOG.error(
                "worker %d (process %d) ended with status %s after %.0f s; restarting in %.1f s",
                worker.number,
                worker.process.pid,
                status,
                lived,
                pause,
            )
            worker.process, worker.again_at = None, time.monotonic() + pause
            _close_signs(worker)
        if time.monotonic() >= worker.again_at:
            self._try_to_start(worker)

    def _try_to_start(self, worker: Worker) -> None:
        """Start a worker; after a refusal (no process, no descriptor) try again later."""
        try:
            self._start(worker)
        except OSError as error:
            worker.failures += 1
            worker.down_since = worker.down_since or time.monotonic()
            pause = _pause_after(worker.failures)
            LOG.error(
                "worker %d cannot start: %s; restarting in %.1f s", worker.number, error, pause
            )
            worker.again_at = time.monotonic() + pause
            _close_signs(worker)

    def _kill_silent(self, worker: Worker, process: subprocess.Popen[bytes]) -> None:
        """Read the signs of life of a worker; kill it if there were none for too long."""
        now = time.monotonic()
        with suppress(BlockingIOError):
            if worker.signs is not None and os.read(worker.signs, 4096):
                worker.alive_at, worker.down_since = now, None
        if worker.alive_at is not None and now - worker.alive_at > self._silence:
            text = "worker %d (process %d) gives no sign of life for %.0f s: killed"
            LOG.error(text, worker.number, process.pid, now - worker.alive_at)
            worker.alive_at = None
            process.kill()

    def _start(self, worker: Worker) -> None:
        sockets = {name: each.fileno() for name, each in self._sockets.items()}
        worker.signs, signs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        worker.alive_at = None
        inherited = {
            "number": worker.number,
            "sockets": sockets,
            "options": dict(self._shared.options),
            "lifeline": self._read,
            "signs": signs,
            "watchdog": self._silence,
        }
        try:
            with self._lock:
                worker.begun = time.monotonic()
                worker.process = subprocess.Popen(
                    self._command,
                    env={**os.environ, VARIABLE: json.dumps(inherited)},
                    pass_fds=[self._read, signs, *sockets.values(), *self._shared.descriptors],
                )
        finally:
            os.close(signs)
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
            _close_signs(worker)
        for descriptor in (self._read, self._write):
            os.close(descriptor)


def _pause_after(failures: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures, MOST_DOUBLINGS)))


def _close_signs(worker: Worker) -> None:
    if worker.signs is not None:
        os.close(worker.signs)
        worker.signs = None
