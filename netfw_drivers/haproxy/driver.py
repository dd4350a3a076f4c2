"""HaproxyMetadataDriver: one haproxy in each namespace that needs a metadata proxy."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.events import Event, KeysChanged, ProcessDied, Sink
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.errors import NetfwError, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.fs.directory_lock import DirectoryLock
from netfw.linux.process import OnDeath, ProcessExited, ProcessKey, RespawnFailed, Supervisor
from netfw.linux.sockets.tcp_listeners import listeners, listeners_of, sockets_of
from netfw.model.values.ids import NetworkId, RouterId
from netfw.plan import Operation, Outcome, Plan, Update
from netfw_drivers.haproxy.plan import (
    Found,
    HaproxySpec,
    Observed,
    ObservedNamespace,
    RemoveProxy,
    RunningProxy,
    StartProxy,
    Step,
    StopProxy,
    WriteConfig,
    config_path,
    make_spec,
    plan_proxies,
    process_key,
)
from netfw_drivers.haproxy.prerequisites import find_problems
from netfw_drivers.haproxy.settings import OPTIONS, Settings, read_settings
from netfw_drivers.haproxy.users import with_account

_IPV6 = Path("/proc/self/net/if_inet6")
"""Exists if the kernel has IPv6."""


class HaproxyMetadataDriver(MetadataDriver, Reconciler[MetadataKey, MetadataProxy, Observed]):
    """Runs one haproxy per key, with a configuration of its own.

    Its records are files under ``metadata_proxy_confs``: the key of each process, and the digest of
    the configuration that it was started with.  Different keys may be converged in parallel.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = OPTIONS

    def __init__(self, settings: Settings) -> None:
        self._configured = settings
        self._lock = threading.Lock()
        self._directory_lock = DirectoryLock(
            settings.directory,
            "metadata_proxy_confs",
            on_acquired=self._reset,
            publish=self._notify,
        )
        self._current_supervisor: Supervisor | None = None
        self._sinks: tuple[Sink, ...] = ()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(read_settings(options))

    def describe(self) -> DriverInfo[HostCapability]:
        return DriverInfo("haproxy", {HostCapability.PLAN, HostCapability.WATCH})

    def problems(self) -> tuple[str, ...]:
        return tuple(find_problems(self._configured))

    def watch(self, sink: Sink) -> None:
        with self._lock:
            self._sinks = (*self._sinks, sink)

    def close(self) -> None:
        with self._lock:
            self._sinks = ()
        self._reset()
        self._directory_lock.release()

    def present(self) -> frozenset[MetadataKey]:
        return frozenset(_keys(map(_named, self._supervisor.present())))

    def observe(self, scope: Update[MetadataKey, MetadataProxy] | None) -> Observed:
        if scope is None:
            keys, names = self._all_keys(), netns.names()
        else:
            keys = frozenset(scope) | (self._all_keys() if scope.complete else frozenset())
            names = frozenset(proxy.netns for proxy in scope.put.values())
        observed = {name: _observe_namespace(name) for name in names}
        return Observed(
            settings=self._settings() if scope is None or scope.put else self._configured,
            found={key: self._find(key) for key in keys},
            namespaces={name: each for name, each in observed.items() if each is not None},
        )

    def plan(self, update: Update[MetadataKey, MetadataProxy], observed: Observed) -> Plan:
        return plan_proxies(update, observed)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        self._directory_lock.acquire()
        for stage in plan.stages:
            for operation in stage.operations:
                self._execute(operation)
            checkpoint(stage)

    def converge(self, update: Update[MetadataKey, MetadataProxy]) -> Outcome[MetadataKey]:
        """Converge as every reconciler does, then supervise the processes that ran already.

        :raises BackendLocked: another driver holds the lock on ``metadata_proxy_confs``;
            `FeedLost` follows.
        """
        self._directory_lock.acquire()
        outcome = super().converge(update)
        lost: dict[MetadataKey, NetfwError] = {}
        for key in outcome.done & update.put.keys():
            try:
                self._supervise(key, make_spec(key, update.put[key], self._settings()))
            except (OperationRefused, NotFound) as error:
                lost[key] = error  # it died meanwhile, and cannot be restarted
        return evolve(outcome, done=outcome.done - lost.keys(), failed={**outcome.failed, **lost})

    def _reset(self) -> None:
        """Stop supervision: another driver may have had the directory meanwhile."""
        with self._lock:
            made, self._current_supervisor = self._current_supervisor, None
        if made is not None:
            made.close()

    @property
    def _supervisor(self) -> Supervisor:
        with self._lock:
            if self._current_supervisor is None:
                self._current_supervisor = Supervisor(
                    self._configured.directory, self._handle_process_event
                )
            return self._current_supervisor

    def _settings(self) -> Settings:
        """Return the configured settings, completed with facts of this host."""
        return with_account(evolve(self._configured, ipv6=_IPV6.exists()))

    def _path(self, key: MetadataKey) -> Path:
        return config_path(self._configured.directory, key)

    def _all_keys(self) -> frozenset[MetadataKey]:
        """Return the keys that have a process or a file."""
        with _translated(f"listing {self._configured.directory}"):
            names = {
                (service, path.name.split(".")[0])
                for service in ("network", "router")
                for path in (self._configured.directory / service).glob("*.*")
            }
        return frozenset(_keys(names)) | self.present()

    def _find(self, key: MetadataKey) -> Found:
        text = self._read(key)
        running = self._supervisor.running(process_key(key))
        if running is None:
            return Found(None, text, remains=any(path.exists() for path in self._files(key)))
        sockets = sockets_of(running.pid)
        return Found(
            RunningProxy(digest=running.digest, namespace=running.namespace, sockets=sockets), text
        )

    def _files(self, key: MetadataKey) -> Iterator[Path]:
        """Yield all possible files of *key*, except the configuration."""
        path = self._path(key)
        yield _temporary_path(path)
        for suffix in (".json", ".pid", ".log"):
            yield path.with_suffix(suffix)

    def _read(self, key: MetadataKey) -> str | None:
        with _translated(f"reading {self._path(key)}"):
            try:
                return self._path(key).read_text(errors="replace")
            except FileNotFoundError:
                return None

    def _write(self, key: MetadataKey, text: str) -> None:
        path = self._path(key)
        with _translated(f"writing {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            _temporary_path(path).write_text(text)
            os.replace(_temporary_path(path), path)

    def _execute(self, operation: Operation) -> None:
        step: Step = operation.payload  # type: ignore[assignment]
        match step:
            case StartProxy(key, spec):
                self._start(operation, key, spec)
            case StopProxy(key):
                self._supervisor.stop(process_key(key))
            case RemoveProxy(key):
                self._remove(key)
            case WriteConfig(key, text):
                self._write(key, text)

    def _start(self, operation: Operation, key: MetadataKey, spec: HaproxySpec) -> None:
        self._write(key, spec.text)
        try:
            self._supervise(key, spec)
        except (OperationRefused, NotFound) as error:
            self._remove(key)
            reasons = error.reasons.values() if isinstance(error, OperationRefused) else [error]
            raise OperationRefused({operation: "; ".join(map(str, reasons))}) from error

    def _supervise(self, key: MetadataKey, spec: HaproxySpec) -> None:
        """Start the proxy, or adopt a running one with the same specification."""
        wanted = {(address.address, address.port) for address in spec.listen_addresses}

        def listens(pid: int) -> bool:
            return wanted <= {(each.address, each.port) for each in listeners_of(pid)}

        self._supervisor.start(process_key(key), evolve(spec.program, ready=listens))

    def _remove(self, key: MetadataKey) -> None:
        self._supervisor.stop(process_key(key))
        with _translated(f"removing {self._path(key)}"):
            for path in (*self._files(key), self._path(key)):
                path.unlink(missing_ok=True)

    def _handle_process_event(self, event: Event) -> None:
        """Translate an event of the supervisor to keys, and publish it."""
        if isinstance(event, ProcessExited):
            keys = frozenset(_keys([_named(event.key)]))
            fatal = event.on_death is OnDeath.TELL
            self._notify(ProcessDied(f"metadata proxy: {event.reason}", keys, fatal))
        elif isinstance(event, RespawnFailed):
            keys = frozenset(_keys([_named(event.key)]))
            self._notify(KeysChanged(f"metadata proxy: {event.reason}", keys))

    def _notify(self, event: Event) -> None:
        for sink in self._sinks:
            sink(event)


def _keys(names: Iterable[tuple[str, str]]) -> Iterator[MetadataKey]:
    """Yield the keys of processes or files; skip names that this driver did not write."""
    for service, name in names:
        try:
            id = UUID(name)
        except ValueError:
            continue
        if service == "network":
            yield NetworkKey(NetworkId(id))
        elif service == "router":
            yield RouterKey(RouterId(id))


def _named(process: ProcessKey) -> tuple[str, str]:
    return process.service, process.id


def _temporary_path(path: Path) -> Path:
    """Return the path of a file while it is written."""
    return path.with_name(f".{path.name}.new")


def _observe_namespace(name: str) -> ObservedNamespace | None:
    try:
        return ObservedNamespace(netns.identity(name), listeners(name))
    except NotFound:
        return None


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise error_from_errno(error.errno or 0, what, str(error)) from error
