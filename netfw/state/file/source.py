"""FileSource: desired state from a watched file."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from attrs import asdict
from oslo_config.cfg import FloatOpt, StrOpt

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.state_source import Cursor, Delta, Hint, StateSource, Stop
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.values.agent_requests import (
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    Request,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, ConfigError, NotSupported
from netfw.model.resource import Ref, ref
from netfw.state.dependencies import AgentRoot, Assignment, Item
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.file_answers import (
    stated_dhcp_port,
    stated_gateway_port,
    stated_host_mac,
)
from netfw.state.file.status_files import StatusFiles, now
from netfw.state.file.watcher import LoadResult, TopologyWatcher
from netfw.state.memory_source import MemorySource
from netfw.state.store import Key

R = TypeVar("R")

LOG = logging.getLogger(__name__)


class FileSource(StateSource):
    """Desired state from a YAML or JSON file, or a directory of them, that is watched.

    An invalid file changes nothing: all errors are logged and written to the status files, and the
    last valid state stays in force.  Until a first valid file was read, the source is unavailable.
    The state in force is not kept over a restart.  Reports are written to one status file for each
    service of each host; see :meth:`flush`.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS = (
        StrOpt(
            "path",
            required=True,
            help="The topology: a YAML or JSON file, or a directory.  Needed unless [agent] "
            "state_source is another, such as server.",
        ),
        StrOpt(
            "status_path",
            help="Prefix of the names of status files; HOST.SERVICE.json is added. Default: "
            "the path and '.status', beside the topology.",
        ),
        FloatOpt("poll", default=0.5, min=0.05, help="Seconds between two polls of the topology."),
        FloatOpt(
            "debounce",
            default=0.2,
            min=0,
            help="Seconds without a change before a file is read: it is then complete.",
        ),
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        status_path: str | os.PathLike[str] | None = None,
        *,
        poll: float = 0.5,
        debounce: float = 0.2,
        page: int = 500,
        retention: int = 10_000,
    ) -> None:
        name = os.path.normpath(os.fspath(path))
        self._poll, self._debounce = poll, debounce
        self._watcher = TopologyWatcher(name, debounce)
        # Revisions start at the time in milliseconds, since no commit is faster, so that those of a
        # restarted process are higher.
        self._memory = MemorySource(
            page=page, retention=retention, start=time.time_ns() // 1_000_000
        )
        self._memory.listen(self._record_report)
        prefix = f"{name}.status" if status_path is None else os.fspath(status_path)
        self._status_files = StatusFiles(prefix)
        self._status_lock = threading.Lock()
        self._unwritten: str = ""
        self._active = False
        """An agent watches or reports, so this source writes the status files."""
        self._notifiers: list[Hint] = []
        self._in_force: dict[str, Any] = {"path": name, "in_force_since": None, "digest": None}
        self._last: LoadResult | None = None
        self._loaded = threading.Event()
        self._load_lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        if not options["path"]:
            raise ConfigError("the file source needs the path of a topology")
        return cls(
            options["path"],
            options["status_path"],
            poll=options["poll"],
            debounce=options["debounce"],
        )

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("file")

    def problems(self) -> tuple[str, ...]:
        """Return the errors of the topology now, before an agent is started with it."""
        topology = TopologyWatcher(self._watcher.path, self._debounce).load_now().topology
        return tuple(str(error) for error in topology.errors)

    # Called by embedding programs.

    def refresh(self, new_epoch: bool = False) -> tuple[Diagnostic, ...]:
        """Read the topology at once, without a debounce; return its errors.

        With *new_epoch* a new epoch starts, as after a restart: every agent takes a snapshot.
        """
        with self._load_lock:
            self._apply(self._watcher.load_now(), new_epoch)
            return self._last_errors

    def forget_history(self) -> None:
        """Discard the change log: agents that have not read it take a snapshot."""
        self._memory.forget_history()

    def items(self) -> tuple[Item, ...]:
        """Return all items in force."""
        return self._memory.items()

    def status(self, target: Ref, service: Service = Service.L2) -> StatusReport | None:
        """Return the report that decides the status of *target*, or ``None``."""
        return self._memory.status(target, service)

    def flush(self) -> None:
        """Write the status files now; otherwise they are written shortly after a change.

        :raises BackendUnavailable: they cannot be written; writing is retried.
        """
        with self._status_lock:
            self._active = True
            self._write()
            if self._unwritten:
                raise BackendUnavailable(self._unwritten)

    # The contract, called by agents.

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        self._catch_up(subscription)
        yield from self._memory.snapshot(subscription)

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        self._catch_up(subscription)
        return self._memory.changes(subscription, since)

    def report(self, reports: Sequence[Report]) -> ReportResult:
        result = self._memory.report(reports)
        if not self._watching:
            self.flush()
        elif self._unwritten:
            raise BackendUnavailable(self._unwritten)
        return result

    def request(self, request: Request[R]) -> R:
        self._load_first()
        match request:
            case EnsureDhcpPort():
                return cast(R, stated_dhcp_port(request, self._memory.resources()))
            case EnsureGatewayPort():
                return cast(R, stated_gateway_port(request, self._memory.resources()))
            case EnsureHostMac():
                return cast(R, stated_host_mac(request.host, self._memory.resources()))
            case ReleaseDhcpPort() | ReleaseGatewayPort():
                return cast(R, None)  # the file decides when the port goes
            case SetPrefix():
                raise NotSupported("the file states the prefixes of subnets: write it there")
            case _:
                return self._memory.request(request)

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        self._open_status(subscription)
        stop = self._memory.watch(subscription, hint)
        with self._status_lock:
            self._active = True
            self._notifiers.append(hint)
        with self._load_lock:
            if not self._watching and not self._ended.is_set():
                self._thread = start_daemon_thread(
                    "netfw-file-source",
                    f"{self._in_force['path']} cannot be watched",
                    self._poll_loop,
                )
        return lambda: self._unwatch(hint, stop)

    def errors(self) -> tuple[str, ...]:
        return tuple(map(str, self._last_errors)) if self._loaded.is_set() else ()

    def close(self) -> None:
        self._ended.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._memory.close()
        with self._status_lock:
            self._notifiers.clear()
            self._write()

    def _unwatch(self, hint: Hint, stop: Stop) -> None:
        with self._status_lock:
            if hint in self._notifiers:
                self._notifiers.remove(hint)
        stop()

    @property
    def _watching(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _poll_loop(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            with self._load_lock:
                self._poll_once()
                pause = self._debounce if self._watcher.changing else self._poll
            with self._status_lock:
                self._write()

    def _catch_up(self, subscription: Subscription) -> None:
        """Load changes that can be loaded without waiting; watches are notified of the rest."""
        self._open_status(subscription)
        self._load_first()
        if not self._watching and self._load_lock.acquire(blocking=False):
            try:
                self._poll_once()
            finally:
                self._load_lock.release()

    def _load_first(self) -> None:
        if self._loaded.is_set():
            return
        with self._load_lock:
            if not self._loaded.is_set():
                self._apply(self._watcher.load_stable(), new_epoch=False)
            if not self._loaded.is_set():
                errors = "; ".join(str(error) for error in self._last_errors)
                raise BackendUnavailable(f"no state was read yet: {errors}")

    @property
    def _last_errors(self) -> tuple[Diagnostic, ...]:
        return () if self._last is None else self._last.topology.errors

    def _poll_once(self) -> None:
        result = self._watcher.poll()
        if result is not None:
            self._apply(result, new_epoch=False)

    def _apply(self, result: LoadResult, new_epoch: bool) -> None:
        """Put a load result in force; if it has errors, keep the state in force."""
        if result == self._last and not new_epoch:
            return
        former, self._last = self._last, result
        topology = result.topology
        if topology.errors:
            self._log(logging.ERROR, topology.errors, "has errors; the state in force stays")
        else:
            self._commit(topology.items, new_epoch)
            if former is not None and former.topology.errors:
                LOG.info("topology %s: recovered, and in force", self._watcher.path)
            if former is None or former.digest != result.digest:
                self._log(logging.WARNING, topology.warnings, "is in force, with warnings")
        with self._status_lock:
            self._describe(result)
            self._status_files.update(self._memory.resources(), self._memory.serves)
            self._write()
            if former is not None and former.topology.errors != topology.errors:
                for notify in self._notifiers:
                    notify()  # the agents read `errors`

    def _commit(self, items: Sequence[Item], new_epoch: bool) -> None:
        if new_epoch:
            self._memory.restore(*items)
        else:
            gone = {_key(item) for item in self._memory.items()} - {_key(item) for item in items}
            self._memory.commit(items, tuple(gone))
        self._loaded.set()

    def _describe(self, result: LoadResult) -> None:
        topology = result.topology
        if not topology.errors:
            self._in_force |= {
                "in_force_since": now(),
                "digest": result.digest,
                "items": len(topology.items),
                "warnings": [asdict(warning) for warning in topology.warnings],
            }
        self._in_force["errors"] = [asdict(error) for error in topology.errors]

    def _log(self, level: int, diagnostics: Sequence[Diagnostic], state: str) -> None:
        if diagnostics:
            lines = "".join(f"\n  {diagnostic}" for diagnostic in diagnostics)
            LOG.log(level, "topology %s %s:%s", self._watcher.path, state, lines)

    def _open_status(self, subscription: Subscription) -> None:
        with self._status_lock:
            for service in subscription.services:
                self._status_files.open(AgentRoot(service, subscription.host))

    def _record_report(self, report: Report) -> None:
        with self._status_lock:
            # Read in the lock: a commit may have updated the files since the report was accepted.
            resource = None if isinstance(report, Heartbeat) else self._memory.resource(report.ref)
            self._status_files.record(report, resource, self._memory.serves)

    def _write(self) -> None:
        """Write what changed; log a failure once.

        A source that is only read writes nothing: the files may belong to a running agent.
        """
        if not self._active:
            return
        try:
            self._status_files.write(self._in_force)
        except OSError as exc:
            problem = f"the status file cannot be written: {exc}"
            if problem != self._unwritten:
                LOG.error("%s", problem)
            self._unwritten = problem
        else:
            self._unwritten = ""


def _key(item: Item) -> Key:
    return item if isinstance(item, Assignment) else ref(item)
