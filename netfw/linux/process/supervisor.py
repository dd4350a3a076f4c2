"""Supervisor: keeps programs running by service and id, over their deaths and its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from signal import Signals
from typing import Self

from netfw.drivers.values.events import Event
from netfw.errors import BackendBroken, NetfwError
from netfw.linux import netns
from netfw.linux.process.events import ProcessExited, ProcessRespawned, RespawnFailed
from netfw.linux.process.identity import Handle, hold, observe
from netfw.linux.process.launch import Launch, end, tail
from netfw.linux.process.machine_errors import translated_errors
from netfw.linux.process.orphans import Orphans
from netfw.linux.process.pid_files import PidFiles, ProcessRecord
from netfw.linux.process.supervised_process import RunningProcess, StartedProcess, SupervisedProcess
from netfw.linux.process.supervised_program import Backoff, OnDeath, ProcessKey, Program, Timeouts
from netfw.linux.process.suspended_processes import StopDetector, checked_processes
from netfw.linux.process.watcher import Watcher

LOG = logging.getLogger(__name__)


class Supervisor:
    """Keeps programs running.

    1. Processes live in sessions of their own and outlive the supervisor: `close` leaves them
       running, and `start` by the next one takes over what runs already as it should.
    2. A pid is ours only if boot, start time, namespace and the mark in its environment match; any
       other process that has it is never signalled.
    3. `start` is idempotent; a changed program is stopped and started.
    4. A process that ends unexpectedly is started again with back-off, or reported only, as its
       program specifies; *sink* is called, from any thread, and must not block.
    5. `stop` succeeds if the process does not run.
    6. A process that another supervisor of the same *directory* ended or replaced is left to
       that one.
    7. A process that is stopped (SIGSTOP) at two checks in a row, or whose child is, is killed.
    8. Children in its own pid files that outlive a process are ended when it is stopped, and before
       it is started again.

    *directory* is the driver's own, for its records alone; root refuses one that others could
    change, and nothing in it is executed.  Under systemd, the agent's unit needs
    ``KillMode=process``, or the processes are ended with the agent.  Safe for several threads.
    """

    def __init__(
        self,
        directory: Path,
        sink: Callable[[Event], None],
        *,
        backoff: Backoff | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._records = PidFiles(directory)
        self._sink = sink
        self._backoff = backoff or Backoff()
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._states: dict[ProcessKey, SupervisedProcess] = {}
        self._orphans = Orphans(directory)
        self._watcher = Watcher()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="netfw-respawn")
        self._stop_detector = StopDetector()
        self._check_later()

    def pid_path(self, key: ProcessKey) -> Path:
        """Return the path of the pid file of *key*, which a daemon may write by itself."""
        return self._records.pid_path(key)

    def start(self, key: ProcessKey, program: Program) -> StartedProcess:
        """Make *program* run as *key*, and keep it running.

        :raises BackendBroken: there is no such command, or the directory cannot be written to.
        :raises ConfigError: there is no such user.
        :raises OperationRefused: it ended at once; the message has the end of its output.
        :raises NotFound: there is no such namespace.
        :raises BackendUnavailable: the former process could not be ended, or the machine is full.
        """
        with self._checked(key), self._exclusive(key) as state:
            state.turn += 1
            namespace = netns.identity(program.namespace)
            record = self._records.read(key)
            running = self._running(record, state)
            if running is not None and _fits(record, running, program, namespace):
                return self._keep(key, state, program, running, adopted=True)
            if running is not None:
                self._end(key, state, running)
            state.deaths = 0
            handle = self._orphans.find_main(key, program, self._timeouts)
            adopted = handle is not None
            handle = handle or self._launch(key, program)
            self._record(key, program, handle)
            return self._keep(key, state, program, handle, adopted=adopted)

    def stop(self, key: ProcessKey, released: Callable[[], bool] | None = None) -> None:
        """End the process of *key*, by TERM or KILL, and remove its record.

        :param released: returns whether it has released all that it had: after TERM, it is killed
            as soon as it has.
        :raises BackendUnavailable: not even KILL ended it in time.
        :raises BackendBroken: the directory cannot be written to.
        """
        with self._checked(key), self._exclusive(key) as state:
            state.turn += 1
            record = self._records.read(key)
            running = self._running(record, state)
            if running is not None:
                self._end(key, state, running, released)
            if record is not None:
                self._orphans.end_children(key, record.own_pid_files, self._timeouts, released)
            state.program = None
            with self._orphans.taken(key) as orphans:
                for orphan in orphans:
                    end(orphan, self._timeouts)
            self._records.remove(key)

    def present(self, *, but: Container[ProcessKey] = ()) -> frozenset[ProcessKey]:
        """Return the keys whose processes run now, including those of other supervisors.

        :param but: keys that the caller knows of: they are left out, and cost nothing.
        :raises BackendBroken: the directory cannot be read.
        """
        with self._checked("the processes that run"):
            recorded = (key for key in self._records.recorded() if key not in but)
            running = {key for key in recorded if self.pid(key) is not None}
            return frozenset(running) | self._orphans.keys(but=but)

    def pid(self, key: ProcessKey) -> int | None:
        """Return the pid of the process of *key*, if it runs.

        :raises BackendUnavailable: no file descriptor or memory is left to find out.
        """
        with translated_errors(key):
            return _pid(self._records.read(key))

    def running(self, key: ProcessKey) -> RunningProcess | None:
        """Return what runs as *key*, also if its record was lost or never written.

        `start` of a program with the same digest, in the same namespace, takes it over.
        """
        with self._checked(key), self._exclusive(key) as state:
            record, own = self._records.read(key), state.handle
            if own is not None:  # if it has ended, the owner is notified separately
                found = own.identity if own.alive() else None
            else:
                found = record.identity if record and _pid(record) is not None else None
            if found is None:
                return self._orphan(key)
            digest = record.digest if record else ""
            return RunningProcess(pid=found.pid, digest=digest, namespace=found.namespace)

    def _orphan(self, key: ProcessKey) -> RunningProcess | None:
        for pid, digest in self._orphans.running(key):
            if (now := observe(pid)) is not None:
                return RunningProcess(pid=pid, digest=digest, namespace=now.namespace)
        return None

    def signal(self, key: ProcessKey, number: Signals) -> bool:
        """Send a signal to the process of *key*; return whether there was one."""
        with self._checked(key), self._exclusive(key) as state:
            record, own = self._records.read(key), state.handle
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
        """Stop watching; all processes go on.  Idempotent."""
        self._watcher.close()
        self._pool.shutdown(cancel_futures=True)
        with self._lock:
            states, self._states = self._states, {}
        for state in states.values():
            if state.handle is not None:
                state.handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _checked(self, what: object) -> Iterator[None]:
        """Refuse a directory that others could change, and translate errors during *what*."""
        with translated_errors(what):
            self._records.check_directory()
            yield

    @contextmanager
    def _exclusive(self, key: ProcessKey) -> Iterator[SupervisedProcess]:
        """Lock the state of *key* for the calling thread."""
        with self._lock:
            state = self._states.setdefault(key, SupervisedProcess())
            state.users += 1
        try:
            with state.lock:
                yield state
        finally:
            with self._lock:
                state.users -= 1
                if not state.users and state.program is None and state.handle is None:
                    self._states.pop(key, None)

    def _running(self, record: ProcessRecord | None, state: SupervisedProcess) -> Handle | None:
        """Return the living process that is watched already, or that is on *record*."""
        if state.handle is not None:
            if state.handle.alive():
                return state.handle
            self._release(state)
        return hold(record.identity) if record else None

    def _keep(
        self,
        key: ProcessKey,
        state: SupervisedProcess,
        program: Program,
        handle: Handle,
        *,
        adopted: bool,
    ) -> StartedProcess:
        if state.handle is not handle:
            try:
                self._watch(key, handle)
            except OSError:
                handle.close()  # it is on record, where the next attempt finds it
                raise
            state.handle, state.since = handle, time.monotonic()
        state.program = program
        return StartedProcess(handle.pid, adopted)

    def _watch(self, key: ProcessKey, handle: Handle) -> None:
        self._watcher.watch(handle.descriptor, lambda: self._submit(self._died, key, handle))

    def _launch(self, key: ProcessKey, program: Program) -> Handle:
        self._records.prepare(key)
        self._orphans.end_children(key, program.own_pid_files, self._timeouts)
        return Launch(
            key=key,
            program=program,
            mark=self._orphans.mark(key, program),
            log=program.log or self._records.log_path(key),
            timeouts=self._timeouts,
        ).start()

    def _record(self, key: ProcessKey, program: Program, handle: Handle) -> None:
        """Record the identity of *handle*; if that fails, end the process."""
        record = ProcessRecord(
            identity=handle.identity,
            digest=program.digest(),
            own_pid_files=program.own_pid_files,
        )
        try:
            self._records.write(key, record)
        except OSError as error:
            end(handle, self._timeouts)
            handle.close()
            raise BackendBroken(f"{key} cannot be recorded and was ended: {error}") from error

    def _end(
        self,
        key: ProcessKey,
        state: SupervisedProcess,
        running: Handle,
        released: Callable[[], bool] | None = None,
    ) -> None:
        if state.handle is running:
            self._watcher.forget(running.descriptor)
            state.handle = None
        self._records.forget(key)  # first: other supervisors see that the end is intended
        try:
            end(running, self._timeouts, released)
        finally:
            running.close()

    def _release(self, state: SupervisedProcess) -> str:
        """Release the handle of a process that has ended; return how it ended."""
        handle, state.handle = state.handle, None
        if handle is None:
            return "is not there"
        self._watcher.forget(handle.descriptor)
        ended = handle.reap()
        handle.close()
        return ended

    def _submit(self, function: Callable[..., None], *args: object) -> None:
        with suppress(RuntimeError):  # closed meanwhile
            self._pool.submit(function, *args)

    def _died(self, key: ProcessKey, handle: Handle) -> None:
        with self._exclusive(key) as state:
            program = state.program
            if state.handle is not handle or program is None:
                return
            ended, state.former = self._release(state), {handle.identity}
            steady = time.monotonic() - state.since >= self._backoff.steady
            state.deaths = 1 if steady else state.deaths + 1
            last = tail(program.log or self._records.log_path(key))
            self._notify(ProcessExited(f"{key} {ended}", key, program.on_death, last))
            if program.on_death is OnDeath.RESPAWN:
                self._respawn_later(key, state)

    def _check_later(self) -> None:
        self._watcher.call_later(self._timeouts.stopped, lambda: self._submit(self._kill_stopped))

    def _kill_stopped(self) -> None:
        self._check_later()
        with self._lock:
            running = checked_processes(self._states)
        for key, process in self._stop_detector.check(running).items():
            with self._exclusive(key) as state:
                if state.handle is process.handle:
                    LOG.warning("%s: killing process %d: it is stopped", key, process.handle.pid)
                    process.kill()

    def _notify(self, event: Event) -> None:
        try:
            self._sink(event)
        except Exception:  # a failing sink must not end the watcher thread
            LOG.exception("process event: callback of the owner failed: %s", event.reason)

    def _respawn_later(self, key: ProcessKey, state: SupervisedProcess) -> float:
        delay, turn = self._backoff.delay(state.deaths), state.turn
        self._watcher.call_later(delay, lambda: self._submit(self._respawn, key, turn))
        return delay

    def _respawn(self, key: ProcessKey, turn: int) -> None:
        with self._exclusive(key) as state:
            program = state.program
            if state.turn != turn or program is None or state.handle is not None:
                return
            try:
                with self._checked("starting it again"):
                    if self._is_of_another(key, state):
                        state.program = None
                        return
                    process = self._start_again(key, state, program)
            except NetfwError as error:
                state.deaths += 1
                delay = self._respawn_later(key, state)
                self._notify(RespawnFailed(f"{key}: {error}", key, delay))
                return
            self._notify(ProcessRespawned(f"{key} runs again", key, process.pid))

    def _is_of_another(self, key: ProcessKey, state: SupervisedProcess) -> bool:
        """Return whether another supervisor ended or replaced the process that died.

        If the whole directory of records is gone, that is not assumed.
        """
        record = self._records.read(key)
        if record is None:
            return self._records.is_withdrawn(key)
        return record.identity not in state.former

    def _start_again(
        self, key: ProcessKey, state: SupervisedProcess, program: Program
    ) -> StartedProcess:
        """Start *program*, unless the last attempt did so and failed only to watch it."""
        handle = self._running(self._records.read(key), state)
        if handle is None:
            handle = self._launch(key, program)
            state.former.add(handle.identity)  # its record may be written, and an error follow
            self._record(key, program, handle)
        return self._keep(key, state, program, handle, adopted=False)


def _fits(
    record: ProcessRecord | None,
    running: Handle,
    program: Program,
    namespace: netns.NamespaceIdentity,
) -> bool:
    """Return whether the process runs *program*, in the namespace that has the name now."""
    same = record is not None and record.digest == program.digest()
    return same and running.identity.namespace == namespace


def _pid(record: ProcessRecord | None) -> int | None:
    """Return the pid of the process on record, if it runs."""
    handle = hold(record.identity) if record else None
    if handle is None:
        return None
    with closing(handle):
        return handle.pid if handle.alive() else None
