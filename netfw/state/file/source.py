"""FileSource: a file that people or programs write says what hosts should be."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from attrs import asdict
from oslo_config.cfg import FloatOpt, StrOpt

from netfw.drivers.agent_requests import EnsureDhcpPort, ReleaseDhcpPort, Request
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.reports import Heartbeat, Report, ReportResult, StatusReport
from netfw.drivers.state_source import Cursor, Delta, Hint, StateSource, Stop
from netfw.drivers.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, ConfigError, NotFound, NotSupported
from netfw.model.device_owner import DeviceOwner, is_dhcp
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, ref
from netfw.state.dependencies import AgentRoot, Assignment, Item
from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.status_files import StatusFiles, now
from netfw.state.file.watcher import LoadResult, TopologyWatcher
from netfw.state.memory_source import MemorySource
from netfw.state.store import Key

R = TypeVar("R")

LOG = logging.getLogger(__name__)


class FileSource(StateSource):
    """Desired state from a YAML or JSON file, or a directory of them, that is watched.

    What is wrong with a file is told in full, in the log and in the status files, and changes
    nothing: what was in force stays so.  Until a first good file was read, the source is out of
    reach.  What was in force is not kept over a restart.  Reports go to one status file for each
    service of each host; :meth:`flush` says when.
    """

    VERSION: ClassVar[int] = 1
    OPTIONS = (
        StrOpt("path", required=True, help="The topology: a YAML or JSON file, or a directory."),
        StrOpt(
            "status_path",
            help="Begin of the names of status files; HOST.SERVICE.json is added. Left out: "
            "the path and '.status', beside the topology.",
        ),
        FloatOpt("poll", default=0.5, min=0.05, help="Seconds between two looks at the topology."),
        FloatOpt(
            "settle",
            default=0.2,
            min=0,
            help="Seconds for which a file must not change before it is read: it is then taken "
            "to be wholly written.",
        ),
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        status_path: str | os.PathLike[str] | None = None,
        *,
        poll: float = 0.5,
        settle: float = 0.2,
        page: int = 500,
        retention: int = 10_000,
    ) -> None:
        name = os.path.normpath(os.fspath(path))
        self._poll, self._settle = poll, settle
        self._watched = TopologyWatcher(name, settle)
        # Revisions begin with the time, in milliseconds as no commit is quicker, so that those of
        # a restarted process are higher.
        self._memory = MemorySource(
            page=page, retention=retention, start=time.time_ns() // 1_000_000
        )
        self._memory.listen(self._heard)
        prefix = f"{name}.status" if status_path is None else os.fspath(status_path)
        self._board = StatusFiles(prefix)
        self._board_lock = threading.Lock()
        self._unwritten: str = ""
        self._attended = False
        """Somebody watches or reports, and so the status files are this source's to write."""
        self._hints: list[Hint] = []
        self._in_force: dict[str, Any] = {"path": name, "in_force_since": None, "digest": None}
        self._last: LoadResult | None = None
        self._loaded = threading.Event()
        self._reading = threading.RLock()
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
            settle=options["settle"],
        )

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("file")

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the topology now, before anything is started with it."""
        topology = TopologyWatcher(self._watched.path, self._settle).at_once().topology
        return tuple(str(fault) for fault in topology.faults)

    # What people and embedding programs do.

    def refresh(self, anew: bool = False) -> tuple[Diagnostic, ...]:
        """Read the topology at once, without waiting for it to settle; return what is wrong.

        With *anew* a new history begins, as after a restart: every agent takes a snapshot.
        """
        with self._reading:
            self._take(self._watched.at_once(), anew)
            return self._faults

    def forget_history(self) -> None:
        """Forget what changed until now: agents that have not heard of it take a snapshot."""
        self._memory.forget_history()

    def items(self) -> tuple[Item, ...]:
        """All that is in force."""
        return self._memory.items()

    def status(self, target: Ref, service: Service = Service.L2) -> StatusReport | None:
        """What the host that has *target* in its care said last; ``None``: nothing yet."""
        return self._memory.status(target, service)

    def flush(self) -> None:
        """Write the status files now; else they follow within a moment.

        :raises BackendUnavailable: they cannot be written; it is tried again.
        """
        with self._board_lock:
            self._attended = True
            self._write()
            if self._unwritten:
                raise BackendUnavailable(self._unwritten)

    # What agents do.

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
                return cast(R, self._stated_port(request))
            case ReleaseDhcpPort():
                return cast(R, None)  # it goes when the file no longer states it
            case _:
                return self._memory.request(request)

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        self._note(subscription)
        stop = self._memory.watch(subscription, hint)
        with self._board_lock:
            self._attended = True
            self._hints.append(hint)
        with self._reading:
            if not self._watching and not self._ended.is_set():
                self._thread = threading.Thread(
                    target=self._keep_looking, name="netfw-file-source", daemon=True
                )
                self._thread.start()
        return lambda: self._unwatch(hint, stop)

    def errors(self) -> tuple[str, ...]:
        return tuple(map(str, self._faults)) if self._loaded.is_set() else ()

    def close(self) -> None:
        self._ended.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._memory.close()
        with self._board_lock:
            self._hints.clear()
            self._write()

    def _unwatch(self, hint: Hint, stop: Stop) -> None:
        with self._board_lock:
            if hint in self._hints:
                self._hints.remove(hint)
        stop()

    @property
    def _watching(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _keep_looking(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            with self._reading:
                self._look()
                pause = self._settle if self._watched.unsettled else self._poll
            with self._board_lock:
                self._write()

    def _catch_up(self, subscription: Subscription) -> None:
        """Be as current as can be had without waiting; whoever watches is told of the rest."""
        self._note(subscription)
        self._load_first()
        if not self._watching and self._reading.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._reading.release()

    def _load_first(self) -> None:
        if self._loaded.is_set():
            return
        with self._reading:
            if not self._loaded.is_set():
                self._take(self._watched.settled(), anew=False)
            if not self._loaded.is_set():
                said = "; ".join(str(fault) for fault in self._faults)
                raise BackendUnavailable(f"no state was read yet: {said}")

    @property
    def _faults(self) -> tuple[Diagnostic, ...]:
        return () if self._last is None else self._last.topology.faults

    def _look(self) -> None:
        reading = self._watched.look()
        if reading is not None:
            self._take(reading, anew=False)

    def _take(self, reading: LoadResult, anew: bool) -> None:
        """Put a reading in force, or, if it is faulty, keep what is."""
        if reading == self._last and not anew:
            return
        former, self._last = self._last, reading
        topology = reading.topology
        if topology.faults:
            self._tell(logging.ERROR, topology.faults, "has faults; what was in force stays so")
        else:
            self._commit(topology.items, anew)
            if former is not None and former.topology.faults:
                LOG.info("the topology %s is good again, and in force", self._watched.path)
            if former is None or former.digest != reading.digest:
                so = "is in force, and may not be what is meant"
                self._tell(logging.WARNING, topology.warnings, so)
        with self._board_lock:
            self._describe(reading)
            self._board.look_over(self._memory.resources(), self._memory.serves)
            self._write()
            if former is not None and former.topology.faults != topology.faults:
                for hint in self._hints:
                    hint()  # whoever watches asks for the troubles

    def _commit(self, items: Sequence[Item], anew: bool) -> None:
        if anew:
            self._memory.restore(*items)
        else:
            gone = {_key(item) for item in self._memory.items()} - {_key(item) for item in items}
            self._memory.commit(items, tuple(gone))
        self._loaded.set()

    def _describe(self, reading: LoadResult) -> None:
        topology = reading.topology
        if not topology.faults:
            self._in_force |= {
                "in_force_since": now(),
                "digest": reading.digest,
                "items": len(topology.items),
                "warnings": [asdict(caution) for caution in topology.warnings],
            }
        self._in_force["errors"] = [asdict(fault) for fault in topology.faults]

    def _tell(self, level: int, found: Sequence[Diagnostic], so: str) -> None:
        if found:
            said = "".join(f"\n  {each}" for each in found)
            LOG.log(level, "the topology %s %s:%s", self._watched.path, so, said)

    def _note(self, subscription: Subscription) -> None:
        with self._board_lock:
            for service in subscription.services:
                self._board.open(AgentRoot(service, subscription.host))

    def _heard(self, report: Report) -> None:
        resource = None if isinstance(report, Heartbeat) else self._memory.resource(report.ref)
        with self._board_lock:
            self._board.hear(report, resource)

    def _write(self) -> None:
        """Write what changed; note, and say once, that it cannot be.

        Whoever only reads writes nothing: the files may be those of an agent that runs.
        """
        if not self._attended:
            return
        try:
            self._board.write(self._in_force)
        except OSError as exc:
            said = f"the status file cannot be written: {exc}"
            if said != self._unwritten:
                LOG.error("%s", said)
            self._unwritten = said
        else:
            self._unwritten = ""

    def _stated_port(self, request: EnsureDhcpPort) -> Port:
        resources = self._memory.resources()
        if Ref(Kind.NETWORK, request.network) not in resources:
            raise NotFound(f"there is no network {request.network}")
        for port in resources.values():
            if (
                isinstance(port, Port)
                and (port.network_id, port.binding.host) == (request.network, request.host)
                and is_dhcp(port.device_owner)
                and request.subnets <= {fixed.subnet_id for fixed in port.fixed_ips}
            ):
                return port
        raise NotSupported(
            f"a file states addresses itself: give network {request.network} a port on "
            f"{request.host} with device_owner {DeviceOwner.DHCP} and an address on each subnet"
        )


def _key(item: Item) -> Key:
    return item if isinstance(item, Assignment) else ref(item)
