"""Runs a daemon for each router: files, processes, supervision."""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import Signals
from typing import ClassVar

from netfw.drivers.values.events import Event, KeysChanged, ProcessDied
from netfw.drivers.values.keys import RouterKey
from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.fs.atomic_files import (
    RemoveFile,
    WriteFile,
    change_files,
    list_directory,
    read_file,
)
from netfw.linux.process import (
    Backoff,
    OnDeath,
    ProcessExited,
    ProcessKey,
    Program,
    RespawnFailed,
    StartedProcess,
    Supervisor,
)
from netfw.linux.process.reload import change_and_reload
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.names import (
    PartId,
    config_path,
    parse_part,
    part_key,
    router_namespace,
)
from netfw_drivers.linux_router.plan.observed import FoundDaemon

LOG_LIMIT = 1 << 20
"""Limit of the output of a daemon, in bytes."""


class RouterProcesses:
    """The supervisor of all daemons of routers, which starts when it is first used.

    :param notify: called with events, from any thread.
    """

    def __init__(self, settings: RouterSettings, notify: Callable[[Event], None]) -> None:
        self._settings, self._notify = settings, notify
        self._lock = threading.Lock()
        self._current: Supervisor | None = None

    @property
    def supervisor(self) -> Supervisor:
        with self._lock:
            if self._current is None:
                self._current = Supervisor(
                    self._settings.directory,
                    self._handle_event,
                    backoff=Backoff(most=self._settings.check_interval),
                )
            return self._current

    def close(self) -> None:
        """Stop supervision; the processes go on.  Idempotent."""
        with self._lock:
            current, self._current = self._current, None
        if current is not None:
            current.close()

    def _handle_event(self, event: Event) -> None:
        """Translate an event of the supervisor, and publish it."""
        match event:
            case ProcessExited(reason=reason, key=key, on_death=on_death, tail=tail):
                text = f"{reason}: {tail}" if tail else reason
                self._notify(ProcessDied(text, _keys(key.id), on_death is OnDeath.TELL))
            case RespawnFailed(reason=reason, key=key):
                self._notify(KeysChanged(reason, _keys(key.id)))


class DaemonRunner(ABC):
    """One process of a kind for each router; its records are files in ``router_confs``.

    Different routers may be used by different threads at once.
    """

    SERVICE: ClassVar[str]
    MODE: ClassVar[int] = 0o644
    """Permissions of the configuration."""
    OWN_SUFFIXES: ClassVar[tuple[str, ...]] = (".pid",)
    """Ends of the names of files that the daemon makes beside its configuration."""
    CAN_RELOAD: ClassVar[bool] = True
    """Whether it reads its configuration again at SIGHUP, instead of ending."""

    def __init__(self, settings: RouterSettings, processes: RouterProcesses) -> None:
        self._settings, self._processes = settings, processes
        self._supervised: set[PartId] = set()

    @abstractmethod
    def make_program(self, router: PartId) -> Program:
        """Return the program of a router."""

    def execute(self, step: DaemonStep) -> None:
        """Execute one step.

        :raises OperationRefused: a file was refused, or the daemon ended at once.
        :raises BackendError: the program is missing, or the machine refused.
        """
        if isinstance(step, StopDaemon):
            self.stop(step.router)
        else:
            self.run(step)

    @abstractmethod
    def run(self, step: RunDaemon) -> None:
        """Write the configuration, and have the process run by it; errors as of `execute`."""

    def routers(self) -> frozenset[PartId]:
        """Return the routers that have a process or a file."""
        names = {key.id for key in self._supervisor.present() if key.service == self.SERVICE}
        folder = self._settings.directory / self.SERVICE
        names |= {name.split(".")[0] for name in list_directory(folder)}
        return frozenset(id for name in names if (id := parse_part(name)) is not None)

    def observe(self, router: PartId) -> FoundDaemon:
        """Observe the process and the files of a router.

        :raises BackendBroken: a file may not be read.
        """
        running = self._supervisor.running(self._key(router))
        digest = None
        if running is not None and running.namespace == _identity(router):
            digest = running.digest
        return FoundDaemon(
            text=read_file(self._path(router)),
            digest=digest,
            remains=running is not None or any(path.exists() for path in self._files(router)),
        )

    def is_running(self, router: PartId) -> bool:
        """Return whether the process of a router runs in its present namespace."""
        running = self._supervisor.running(self._key(router))
        return running is not None and running.namespace == _identity(router)

    def is_configured(self, router: PartId) -> bool:
        """Return whether a router has a configuration."""
        return self._path(router).exists()

    def supervise(self, router: PartId) -> bool:
        """Supervise a process that ran before, if there is one; errors as of `start`.

        It reads its configuration again, if it can: a driver that was killed may have written a
        new one.  Return whether it was signalled to do that.
        """
        key = self._key(router)
        self._trim_log(router)
        if router in self._supervised or self._supervisor.running(key) is None:
            return False
        self._supervisor.start(key, self.make_program(router))
        reloaded = self.CAN_RELOAD and self._supervisor.signal(key, Signals.SIGHUP)
        self._supervised.add(router)
        return reloaded

    def forget(self) -> None:
        """Forget which processes are supervised: `RouterProcesses.close` was called."""
        self._supervised.clear()

    def write(self, router: PartId, text: str) -> bool:
        """Write the configuration; a running process reads it again.  Return whether one runs.

        A daemon that cannot reload does not run then.

        :raises OperationRefused: the file was refused.
        """
        written = WriteFile(str(self._path(router)), text, self.MODE)
        return change_and_reload(self._supervisor, self._key(router), [written], self._scratch)

    def start(self, router: PartId) -> StartedProcess:
        """Start the process, unless it runs, and supervise it.

        :raises OperationRefused: it ended at once.
        :raises BackendError: the program is missing, or the machine refused.
        """
        process = self._supervisor.start(self._key(router), self.make_program(router))
        self._supervised.add(router)
        return process

    def start_configured(self, router: PartId) -> None:
        """Start the process of a router that has a configuration; errors as of `start`.

        Another thread may stop it at the same time: it removes the configuration first.
        """
        if self.is_configured(router):
            self.start(router)
            if not self.is_configured(router):
                self.stop(router)

    def stop(self, router: PartId) -> None:
        """Stop the process, and remove its files.

        :raises OperationRefused: a file was refused.
        :raises BackendError: the machine refused.
        """
        change_files([RemoveFile(str(self._path(router)))], self._scratch)
        self._supervisor.stop(self._key(router), partial(self.has_released, router))
        self._supervised.discard(router)
        change_files([RemoveFile(str(path)) for path in self._files(router)], self._scratch)

    def has_released(self, router: PartId) -> bool:
        """Return whether the process, which is to end, may be killed: nothing needs it any more.

        By default it is given its time.
        """
        return False

    @property
    def _supervisor(self) -> Supervisor:
        return self._processes.supervisor

    @property
    def _scratch(self) -> Path:
        return self._settings.directory / "scratch"

    def _key(self, router: PartId) -> ProcessKey:
        return ProcessKey(self.SERVICE, str(router))

    def _path(self, router: PartId) -> Path:
        return config_path(self._settings.directory, self.SERVICE, router)

    def _log_path(self, router: PartId) -> Path:
        return self._path(router).with_suffix(".log")

    def _trim_log(self, router: PartId) -> None:
        """Empty the output of a process that runs for long; it goes on at the end of the file."""
        log = self._log_path(router)
        with contextlib.suppress(OSError):  # it is trimmed next time
            if log.stat().st_size > LOG_LIMIT and self._may_trim_log(router):
                os.truncate(log, 0)

    def _may_trim_log(self, router: PartId) -> bool:
        """Return whether nothing in the output of a process is still needed."""
        return True

    def _files(self, router: PartId) -> tuple[Path, ...]:
        """Return all possible files of a router, except the configuration."""
        path = self._path(router)
        own = (path.with_name(f"{path.name}{suffix}") for suffix in self.OWN_SUFFIXES)
        return (*own, *(path.with_suffix(suffix) for suffix in (".json", ".pid", ".log")))


def _keys(name: str) -> list[RouterKey]:
    part = parse_part(name)
    return [] if part is None else [part_key(part)]


def _identity(router: PartId) -> object:
    try:
        return netns.identity(router_namespace(router))
    except NotFound:
        return None
