"""Runs the radvd of each router: files, processes, supervision."""

from __future__ import annotations

import logging
import pwd
import threading
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals
from uuid import UUID

from netfw.drivers.values.events import Event, KeysChanged, ProcessDied
from netfw.drivers.values.keys import RouterKey
from netfw.errors import ConfigError, NetfwError, NotFound
from netfw.linux import netns
from netfw.linux.fs.atomic_files import (
    RemoveFile,
    WriteFile,
    change_files,
    list_directory,
    read_file,
)
from netfw.linux.process import Backoff, OnDeath, RespawnFailed, Supervisor, is_asleep
from netfw.linux.process import ProcessDied as SupervisedDied
from netfw.linux.process.reload import change_and_reload
from netfw.linux.sockets.prefix_withdrawal import withdraw_prefixes
from netfw.model.ids import RouterId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.names import router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRadvd
from netfw_drivers.linux_router.plan.radvd_plan import (
    SERVICE,
    RadvdStep,
    StopRadvd,
    WithdrawPrefixes,
    config_path,
    make_program,
    process_key,
)

LOG = logging.getLogger(__name__)

_WITHDRAWALS = 3
"""Number of advertisements that withdraw prefixes, as some frames are lost."""
_RELOAD_TIMEOUT = 2.0
_POLL_INTERVAL = 0.005


class RadvdRunner:
    """One radvd for each router that advertises; its records are files in ``router_confs``.

    Different routers may be used by different threads at once.

    :param notify: called with events, from any thread.
    """

    def __init__(self, settings: RouterSettings, notify: Callable[[Event], None]) -> None:
        self._settings, self._notify = settings, notify
        self._lock = threading.Lock()
        self._current: Supervisor | None = None
        self._supervised: set[RouterId] = set()

    def routers(self) -> frozenset[RouterId]:
        """Return the routers that have a process or a file."""
        names = {key.id for key in self._supervisor.present() if key.service == SERVICE}
        folder = self._settings.directory / SERVICE
        names |= {name.split(".")[0] for name in list_directory(folder)}
        return frozenset(id for name in names if (id := _parse_id(name)) is not None)

    def observe(self, router: RouterId) -> FoundRadvd:
        """Observe the process and the files of a router.

        :raises BackendBroken: a file may not be read.
        """
        running = self._supervisor.running(process_key(router))
        digest = None
        if running is not None and running.namespace == _identity(router):
            digest = running.digest
        return FoundRadvd(
            text=read_file(self._path(router)),
            digest=digest,
            remains=running is not None or any(path.exists() for path in self._files(router)),
        )

    def execute(self, step: RadvdStep) -> None:
        """Execute one step.

        :raises OperationRefused: a file was refused, or radvd ended at once.
        :raises BackendError: radvd is missing, or the machine refused.
        """
        key = process_key(step.router)
        if isinstance(step, WithdrawPrefixes):
            _withdraw(step)
            return
        if isinstance(step, StopRadvd):
            self._supervisor.stop(key)
            self._supervised.discard(step.router)
            removed = [RemoveFile(str(path)) for path in self._files(step.router)]
            own = RemoveFile(str(self._path(step.router)))
            change_files([*removed, own], self._scratch)
            return
        written = WriteFile(str(self._path(step.router)), step.text_of_file)
        reloaded = change_and_reload(self._supervisor, key, [written], self._scratch)
        process = self._supervisor.start(key, step.program)
        if reloaded:
            _wait_until_asleep(process.pid)
        self._supervised.add(step.router)

    def supervise(self, router: RouterId) -> None:
        """Supervise a process that ran before, if there is one; errors as of `execute`.

        It reads its configuration again: a driver that was killed may have written a new one.
        """
        key = process_key(router)
        if router not in self._supervised and self._supervisor.running(key) is not None:
            self._supervisor.start(key, make_program(router, self._settings))
            self._supervisor.signal(key, Signals.SIGHUP)
            self._supervised.add(router)

    def close(self) -> None:
        """Stop supervision; the processes go on.  Idempotent."""
        with self._lock:
            current, self._current = self._current, None
            self._supervised.clear()
        if current is not None:
            current.close()

    @property
    def _supervisor(self) -> Supervisor:
        with self._lock:
            if self._current is None:
                self._current = Supervisor(
                    self._settings.directory,
                    self._handle_event,
                    backoff=Backoff(most=self._settings.check_interval),
                )
            return self._current

    def _path(self, router: RouterId) -> Path:
        return config_path(self._settings.directory, router)

    def _files(self, router: RouterId) -> tuple[Path, ...]:
        """Return all possible files of a router, except the configuration."""
        path = self._path(router)
        beside = (path.with_suffix(suffix) for suffix in (".json", ".pid", ".log"))
        return (path.with_name(f"{path.name}.pid"), *beside)

    @property
    def _scratch(self) -> Path:
        return self._settings.directory / "scratch"

    def _handle_event(self, event: Event) -> None:
        """Translate an event of the supervisor, and publish it."""
        match event:
            case SupervisedDied(reason=reason, key=key, on_death=on_death, tail=tail):
                text = f"{reason}: {tail}" if tail else reason
                self._notify(ProcessDied(text, _keys(key.id), on_death is OnDeath.TELL))
            case RespawnFailed(reason=reason, key=key):
                self._notify(KeysChanged(reason, _keys(key.id)))


def check_radvd_user(user: str | None) -> None:
    """Check the option ``radvd_user``.

    :raises ConfigError: there is no such user on this host.
    """
    if not user:
        return
    try:
        pwd.getpwnam(user)
    except KeyError as error:
        raise ConfigError(
            f"radvd_user: there is no user {user!r} here; make it, or name another one"
        ) from error


def _withdraw(step: WithdrawPrefixes) -> None:
    """Withdraw prefixes as far as the device can send: it is removed in any case."""
    namespace = router_namespace(step.router)
    try:
        for _ in range(_WITHDRAWALS):
            withdraw_prefixes(step.device, step.source, step.prefixes, namespace)
    except NetfwError as error:
        LOG.info("router %s: %s", step.router, error)


def _wait_until_asleep(pid: int) -> None:
    """Wait until a process has handled its signals: they wake it, and then it waits for packets."""
    deadline = time.monotonic() + _RELOAD_TIMEOUT
    while not is_asleep(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)


def _keys(name: str) -> list[RouterKey]:
    return [RouterKey(RouterId(UUID(name)))]


def _identity(router: RouterId) -> object:
    try:
        return netns.identity(router_namespace(router))
    except NotFound:
        return None


def _parse_id(name: str) -> RouterId | None:
    try:
        return RouterId(UUID(name))
    except ValueError:
        return None
