"""Supervisor: programs by service and id, kept running over deaths of theirs and of ours."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from signal import Signals
from typing import Self

from netfw.drivers.events import Event
from netfw.errors import BackendBroken, BackendUnavailable, NetfwError
from netfw.linux import netns
from netfw.linux.process.events import ProcessDied, ProcessRespawned, RespawnFailed
from netfw.linux.process.identity import Handle, hold, observe, session
from netfw.linux.process.launch import Launch, by_pid_file, end, tail
from netfw.linux.process.orphans import Orphans
from netfw.linux.process.pid_files import PidFiles, Record
from netfw.linux.process.program import Backoff, OnDeath, ProcessKey, Program, Timeouts
from netfw.linux.process.state import Process, ProcessState, Running
from netfw.linux.process.watcher import Watcher

LOG = logging.getLogger(__name__)

_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT}


class Supervisor:
    """Keeps programs running.

    1. Processes live in sessions of their own and outlive the supervisor: `close` leaves them
       running, and `start` by the next one takes over what runs already as it should.
    2. A pid is ours only if boot, start time, namespace and command line say so; whoever else has
       it is never signalled.
    3. Starting twice is starting once; a changed program is stopped and started.
    4. Who ends unasked is started again after a growing delay, or reported only, as its program
       says; *sink* is told, from any thread, and must not block.
    5. `stop` of what does not run succeeds.
    6. What another supervisor of the same *directory* ended or started in its place is left to
       that one.

    *directory* is the driver's own, for its records alone.  Under systemd, the agent's unit needs
    ``KillMode=process``, or the processes are ended with the agent.  Safe for several threads.
    """

    def __init__(
        self,
        directory: Path,
        sink: Callable[[Event], None],
        *,
        backoff: Backoff | None = None,
        patience: Timeouts | None = None,
    ) -> None:
        self._records = PidFiles(directory)
        self._sink = sink
        self._backoff = backoff or Backoff()
        self._patience = patience or Timeouts()
        self._lock = threading.Lock()
        self._keepers: dict[ProcessKey, ProcessState] = {}
        self._orphans = Orphans(directory)
        self._watcher = Watcher()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="netfw-respawn")

    def pid_path(self, key: ProcessKey) -> Path:
        """Where the pid of *key* is written; a daemon may be told to write it there itself."""
        return self._records.pid_path(key)

    def start(self, key: ProcessKey, program: Program) -> Process:
        """Make *program* run as *key*, and keep it running.

        :raises BackendBroken: there is no such command, or the directory cannot be written to.
        :raises ConfigError: there is no such user.
        :raises OperationRefused: it ended at once; the message has its last words.
        :raises NotFound: there is no such namespace.
        :raises BackendUnavailable: what ran before could not be ended, or the machine is full.
        """
        with _translated(key), self._exclusive(key) as keeper:
            keeper.turn += 1
            running = self._running(key, keeper)
            if running is not None and self._fits(key, running, program):
                return self._keep(key, keeper, program, running, adopted=True)
            if running is not None:
                self._end(key, keeper, running)
            keeper.deaths = 0
            handle = self._found(key, program)
            adopted = handle is not None
            handle = handle or self._launch(key, program)
            self._record(key, program, handle)
            return self._keep(key, keeper, program, handle, adopted=adopted)

    def stop(self, key: ProcessKey) -> None:
        """End the process of *key*, by its own command, TERM or KILL, and forget it.

        :raises BackendUnavailable: not even KILL ended it in time.
        :raises BackendBroken: the directory cannot be written to.
        """
        with _translated(key), self._exclusive(key) as keeper:
            keeper.turn += 1
            running = self._running(key, keeper)
            if running is not None:
                self._end(key, keeper, running)
            keeper.program = None
            for orphan in self._orphans.take(key):
                end(orphan, (), self._patience)
                orphan.close()
            self._records.remove(key)

    def present(self) -> frozenset[ProcessKey]:
        """The keys whose processes run now, whoever started them.

        :raises BackendBroken: the directory cannot be read.
        """
        with _translated("the processes that run"):
            recorded = {key for key in self._records.recorded() if self.pid(key) is not None}
            return frozenset(recorded) | self._orphans.keys()

    def pid(self, key: ProcessKey) -> int | None:
        """The process of *key*, if it runs."""
        record = self._records.read(key)
        handle = hold(record.identity) if record else None
        if handle is None:
            return None
        try:
            return handle.pid if handle.alive() else None
        finally:
            handle.close()

    def running(self, key: ProcessKey) -> Running | None:
        """What runs as *key*, also if the record of it was lost, or was never written.

        `start` of a program with the same digest, in the same namespace, takes it over.
        """
        with _translated(key), self._exclusive(key) as keeper:
            record, own = self._records.read(key), keeper.handle
            if own is not None:  # if it has ended, that is told to the owner, who may be asking
                found = own.identity if own.alive() else None
            else:
                pid = self.pid(key)
                found = record.identity if record and record.identity.pid == pid else None
            if found is None:
                return self._orphan(key)
            digest = record.digest if record else ""
            return Running(pid=found.pid, digest=digest, namespace=found.namespace)

    def _orphan(self, key: ProcessKey) -> Running | None:
        for pid, digest in self._orphans.running(key):
            if (now := observe(pid)) is not None:
                return Running(pid=pid, digest=digest, namespace=now.namespace)
        return None

    def signal(self, key: ProcessKey, number: Signals) -> bool:
        """Send a signal to the process of *key*; whether there was one."""
        with _translated(key), self._exclusive(key) as keeper:
            record, own = self._records.read(key), keeper.handle
            handle = own or (hold(record.identity) if record else None)
            if handle is None:
                return False
            try:
                handle.signal(number)
                return handle.alive()
            finally:
                if handle is not own:
                    handle.close()

    def close(self) -> None:
        """Stop watching; all processes go on.  Closing twice is closing once."""
        self._watcher.close()
        self._pool.shutdown(cancel_futures=True)
        with self._lock:
            keepers, self._keepers = self._keepers, {}
        for keeper in keepers.values():
            if keeper.handle is not None:
                keeper.handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _exclusive(self, key: ProcessKey) -> Iterator[ProcessState]:
        """The keeper of *key*, for one thread at a time."""
        with self._lock:
            keeper = self._keepers.setdefault(key, ProcessState())
            keeper.users += 1
        try:
            with keeper.lock:
                yield keeper
        finally:
            with self._lock:
                keeper.users -= 1
                if not keeper.users and keeper.program is None and keeper.handle is None:
                    self._keepers.pop(key, None)

    def _running(self, key: ProcessKey, keeper: ProcessState) -> Handle | None:
        """The living process that we watch already, or that is on record."""
        if keeper.handle is not None:
            if keeper.handle.alive():
                return keeper.handle
            self._release(keeper)
        record = self._records.read(key)
        return hold(record.identity) if record else None

    def _fits(self, key: ProcessKey, running: Handle, program: Program) -> bool:
        """Whether what runs is *program*, in the namespace that now has the name."""
        record = self._records.read(key)
        same = record is not None and record.digest == program.digest()
        return same and running.identity.namespace == netns.identity(program.namespace)

    def _keep(
        self,
        key: ProcessKey,
        keeper: ProcessState,
        program: Program,
        handle: Handle,
        *,
        adopted: bool,
    ) -> Process:
        if keeper.handle is not handle:
            try:
                self._watch(key, handle)
            except OSError:
                handle.close()  # it is on record, and found there by the next try
                raise
            keeper.handle, keeper.since = handle, time.monotonic()
        keeper.program = program
        return Process(handle.pid, adopted)

    def _watch(self, key: ProcessKey, handle: Handle) -> None:
        self._watcher.watch(handle.descriptor, lambda: self._submit(self._died, key, handle))

    def _launch(self, key: ProcessKey, program: Program) -> Handle:
        self._records.prepare(key)
        return Launch(
            key=key,
            program=program,
            mark=self._orphans.mark(key, program),
            log=program.log or self._records.log_path(key),
            patience=self._patience,
        ).start()

    def _record(self, key: ProcessKey, program: Program, handle: Handle) -> None:
        """Write down who *handle* is; what cannot be written down may not run."""
        record = Record(identity=handle.identity, digest=program.digest(), stop=program.stop)
        try:
            self._records.write(key, record)
        except OSError as error:
            end(handle, (), self._patience)
            handle.close()
            raise BackendBroken(f"{key} cannot be recorded and was ended: {error}") from error

    def _end(self, key: ProcessKey, keeper: ProcessState, running: Handle) -> None:
        record = self._records.read(key)
        if keeper.handle is running:
            self._watcher.forget(running.descriptor)
            keeper.handle = None
        self._records.forget(key)  # first: who else watches it learns that it ends on purpose
        try:
            end(running, record.stop if record else (), self._patience)
        finally:
            running.close()

    def _release(self, keeper: ProcessState) -> str:
        """Let go of a process that has ended; how it did."""
        handle, keeper.handle = keeper.handle, None
        if handle is None:
            return "is not there"
        self._watcher.forget(handle.descriptor)
        ended = handle.reap()
        handle.close()
        return ended

    def _submit(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._pool.submit(function, *args)
        except RuntimeError:
            return  # closed meanwhile

    def _died(self, key: ProcessKey, handle: Handle) -> None:
        with self._exclusive(key) as keeper:
            program = keeper.program
            if keeper.handle is not handle or program is None:
                return
            ended, keeper.former = self._release(keeper), handle.identity
            steady = time.monotonic() - keeper.since >= self._backoff.steady
            keeper.deaths = 1 if steady else keeper.deaths + 1
            last = tail(program.log or self._records.log_path(key))
            if program.on_death is OnDeath.RESPAWN:
                self._respawn_later(key, keeper)
            self._tell(ProcessDied(f"{key} {ended}", key, program.on_death, last))

    def _tell(self, event: Event) -> None:
        try:
            self._sink(event)
        except Exception:  # an owner's defect must not end the watch over the others
            LOG.exception("the owner of a process failed when it was told: %s", event.reason)

    def _respawn_later(self, key: ProcessKey, keeper: ProcessState) -> float:
        delay, turn = self._backoff.delay(keeper.deaths), keeper.turn
        self._watcher.call_later(delay, lambda: self._submit(self._respawn, key, turn))
        return delay

    def _respawn(self, key: ProcessKey, turn: int) -> None:
        with self._exclusive(key) as keeper:
            program = keeper.program
            if keeper.turn != turn or program is None or keeper.handle is not None:
                return
            if self._is_of_another(key, keeper):
                keeper.program = None
                return
            try:
                with _translated("starting it again"):
                    process = self._start_again(key, keeper, program)
            except NetfwError as error:
                keeper.deaths += 1
                delay = self._respawn_later(key, keeper)
                self._tell(RespawnFailed(f"{key}: {error}", key, delay))
                return
            self._tell(ProcessRespawned(f"{key} runs again", key, process.pid))

    def _is_of_another(self, key: ProcessKey, keeper: ProcessState) -> bool:
        """Whether another supervisor ended who died, or has one in its place.

        Records that are gone as a whole say nothing.
        """
        record = self._records.read(key)
        if record is None:
            return self._records.is_withdrawn(key)
        return record.identity != keeper.former

    def _start_again(self, key: ProcessKey, keeper: ProcessState, program: Program) -> Process:
        """Start *program*, unless the last try did so and could only not watch it."""
        handle = self._running(key, keeper)
        if handle is None:
            handle = self._launch(key, program)
            self._record(key, program, handle)
        return self._keep(key, keeper, program, handle, adopted=False)

    def _found(self, key: ProcessKey, program: Program) -> Handle | None:
        """A process that was started for *key* but not recorded, because we were killed between.

        What else was started for *key*, and is not of that one's session, is ended.
        """
        orphans = list(self._orphans.take(key))
        mark = self._orphans.mark(key, program)
        mains = [each for each in orphans if each.identity.mark == mark and _is_main(each, program)]
        found = mains[0] if mains else None
        for orphan in orphans:
            if orphan is found:
                continue
            if found is None or session(orphan.pid) != session(found.pid):
                end(orphan, (), self._patience)
            orphan.close()
        return found


@contextmanager
def _translated(what: object) -> Iterator[None]:
    """What the machine refuses while *what* is looked after, as an error of ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise BackendUnavailable(f"{what}: {error}") from error
        raise BackendBroken(
            f"{what}: {error}; the records need a directory that we may write to"
        ) from error


def _is_main(handle: Handle, program: Program) -> bool:
    """Whether a process that carries our mark is the program itself, and not a child of it."""
    if handle.identity.namespace != netns.identity(program.namespace):
        return False
    if program.pid_file is None:
        return session(handle.pid) == handle.pid
    named = by_pid_file(program.pid_file, program.argv)
    return named is not None and named.pid == handle.pid
