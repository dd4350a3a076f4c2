"""Executor for the files, leases and processes of networks."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, assert_never, cast

from netfw.drivers.support.lease_options import INFINITE
from netfw.errors import BackendBroken, NetfwError, OperationRefused
from netfw.linux import netns
from netfw.linux.fs.atomic_files import (
    FileChange,
    RemoveFile,
    WriteFile,
    change_files,
    make_directory,
    read_file,
    remove_directory,
)
from netfw.linux.fs.inotify_limit import ADVICE, allow_more_instances
from netfw.linux.process import Program, Supervisor, run_command, why_missing
from netfw.model.values.ids import NetworkId
from netfw.plan import Operation, Plan, Stage
from netfw_drivers.dnsmasq.config.file_parsers import find_leases, render_leases, without_leases
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.settings import COMMAND, Settings
from netfw_drivers.dnsmasq.config.subnet_modes import unserved_reason
from netfw_drivers.dnsmasq.plan.observed import Reload
from netfw_drivers.dnsmasq.plan.steps import (
    DropPort,
    FileStep,
    ForgetLeases,
    MarkReload,
    PutNetwork,
    PutPort,
    ReleaseLease,
    RemoveFiles,
    RemoveTombstone,
    RunServer,
    SeedLeases,
    SignalServer,
    StopServer,
    process_key,
    reload_marker_path,
)
from netfw_drivers.dnsmasq.runtime.directories import (
    access_problem,
    directory_identities,
    missing_markers,
    watched_record,
)
from netfw_drivers.dnsmasq.runtime.lease_file import read_consistent
from netfw_drivers.dnsmasq.runtime.state_cache import StateCache

LOG = logging.getLogger(__name__)

TIMEOUT = 2.0
"""Seconds within which dnsmasq writes a released lease out of its lease file."""
_POLL_INTERVAL = 0.002
_NO_INOTIFY_INSTANCE = "failed to create inotify"


class DnsmasqExecutor:
    """Executes planned stages, and updates the *cache* with what was done.

    :param supervisor: returns the supervisor, which is created on first use.
    :param allow_more: raises the kernel's limit of inotify instances; returns whether it did.
    """

    def __init__(
        self,
        cache: StateCache,
        supervisor: Callable[[], Supervisor],
        settings: Settings,
        allow_more: Callable[[], bool] = allow_more_instances,
    ) -> None:
        self._cache = cache
        self._supervisor = supervisor
        self._settings = settings
        self._allow_more = allow_more

    def check(self, plan: Plan) -> None:
        """Check that the programs that *plan* starts exist, before it stops or writes anything.

        :raises OperationRefused: the program is missing; running processes continue.
        """
        first = (stage.operations[0] for stage in plan.stages)
        starting = [each for each in first if isinstance(each.payload, RunServer)]
        why = why_missing(self._settings.command, COMMAND) if starting else None
        if why is not None:
            raise OperationRefused({_without_argv(each): why for each in starting})

    def execute(self, stage: Stage) -> None:
        """Execute one stage.

        :raises OperationRefused: it was refused, and nothing of it was done.
        """
        first = stage.operations[0].payload
        try:
            match first:
                case RunServer():
                    self._run(first)
                case SignalServer(files):
                    self._signal(files)
                case StopServer(network):
                    self._supervisor().stop(process_key(network))
                case RemoveFiles(files):
                    self._remove(files)
                case ReleaseLease():
                    self._release(stage)
                case _:
                    self._change_files(stage)
        except OperationRefused as refusal:
            own = frozenset(stage.operations)
            known: dict[object, str] = {
                key: why for key, why in refusal.reasons.items() if key in own
            }
            raise OperationRefused(known or _all(stage, str(refusal))) from refusal
        except NetfwError as error:
            raise OperationRefused(_all(stage, str(error))) from error

    def _run(self, step: RunServer) -> None:
        network = step.files.network
        if step.restart or step.forget:
            self._supervisor().stop(process_key(network))
        if step.forget:
            change_files(self._changes(ForgetLeases(step.files, step.forget)), step.files.directory)
        for read in (step.files.host, step.files.addn_hosts, step.files.opts):
            make_directory(read)  # dnsmasq does not watch a directory created later
            if why := access_problem(read, self._settings.user):
                raise BackendBroken(why)
        if self._settings.log_directory is not None:
            make_directory(step.files.log(self._settings.log_directory).parent)
        cached = self._cache.files_of(network)
        cached.watched = self._record_watched(step.files)
        self._start(network, step.program)
        cached.has_lease_file = True
        self._remove_reload_marker(step.files)

    def _record_watched(self, files: NetworkPaths) -> str:
        """Record the directories that a dnsmasq started now will watch."""
        change_files(missing_markers(files), files.directory)
        identities = directory_identities(files)
        change_files([WriteFile(str(watched_record(files)), identities)], files.directory)
        return identities

    def _start(self, network: NetworkId, program: Program) -> None:
        """Start dnsmasq; with very many networks, raise the limit of inotify instances first."""
        key = process_key(network)
        try:
            self._supervisor().start(key, program)
        except OperationRefused as refusal:
            if _NO_INOTIFY_INSTANCE not in str(refusal):
                raise
            if not self._allow_more():
                raise OperationRefused({key: f"{refusal}: {ADVICE}"}) from refusal
            self._supervisor().start(key, program)

    def _signal(self, files: NetworkPaths) -> None:
        self._supervisor().signal(process_key(files.network), signal.SIGHUP)
        self._remove_reload_marker(files)

    def _remove_reload_marker(self, files: NetworkPaths) -> None:
        cached = self._cache.files_of(files.network)
        if cached.reload is not None:
            change_files([RemoveFile(str(reload_marker_path(files)))], files.directory)
            cached.reload = None

    def _remove(self, files: NetworkPaths) -> None:
        ports = self._cache.files_of(files.network)
        if self._settings.log_directory is not None:
            remove_directory(files.log(self._settings.log_directory).parent)
        remove_directory(files.directory)
        for port in (*ports.ports, *ports.tombstones):
            self._cache.remove_port_files(port)
        self._cache.invalidate(files.network)

    def _change_files(self, stage: Stage) -> None:
        by_change: dict[FileChange, Operation] = {}
        for operation in stage.operations:
            for change in self._changes(cast(FileStep, operation.payload)):
                by_change[change] = operation
        files = cast(Any, stage.operations[0].payload).files
        try:
            change_files(tuple(by_change), files.directory)
        except OperationRefused as refusal:
            reasons: dict[object, str] = {
                by_change[cast(FileChange, change)]: why for change, why in refusal.reasons.items()
            }
            raise OperationRefused(reasons) from refusal
        for operation in stage.operations:
            self._update_cache(files.network, cast(FileStep, operation.payload))

    def _changes(self, step: FileStep) -> Sequence[FileChange]:
        match step:
            case SeedLeases(files, entries):
                lease = self._settings.lease
                expiry = 0 if lease == INFINITE else int(time.time()) + lease
                return (WriteFile(str(files.leases), render_leases(entries, expiry)),)
            case ForgetLeases(files, leases):
                text = read_file(files.leases) or ""
                left = without_leases(text, [lease.address for lease in leases])
                return (WriteFile(str(files.leases), left),)
            case _:
                return step.changes()

    def _update_cache(self, network: NetworkId, step: FileStep) -> None:
        cached = self._cache.files_of(network)
        cached.exists = True
        match step:
            case MarkReload(method=method):
                cached.reload = method
            case PutNetwork(wanted=text, value=value):
                cached.opts, cached.interface = text.opts, text.interface
                cached.server = value.server.id
                self._cache.set_desired_network(network, value)
                for why in filter(None, map(unserved_reason, value.subnets)):
                    LOG.warning("network %s: %s", network, why)
            case PutPort(port=port, wanted=wanted, value=value):
                cached.put(port, wanted)
                self._cache.add_port_files(port, network)
                self._cache.set_desired_port(port, value)
            case DropPort(port=port, tombstone=tombstone, entry=entry):
                cached.drop(port)
                self._cache.forget_desired_port(port, network)
                if tombstone is None:
                    self._cache.remove_port_files(port)
                else:
                    cached.add_tombstone(port, entry)
            case RemoveTombstone(port=port):
                cached.remove_tombstone(port)
                if port not in cached.ports:
                    self._cache.remove_port_files(port)
            case SeedLeases() | ForgetLeases():
                cached.has_lease_file = True
            case _:
                assert_never(step)

    def _release(self, stage: Stage) -> None:
        """Release leases, and wait until they are gone from the lease file."""
        steps = {operation: cast(ReleaseLease, operation.payload) for operation in stage.operations}
        first = next(iter(steps.values()))
        with netns.worker(first.netns) as worker:
            for operation, step in steps.items():
                done = worker.run(run_command, step.lease.release(step.device))
                if not done.ok and not step.orphaned:
                    raise OperationRefused({operation: done.message})
        deadline = time.monotonic() + TIMEOUT
        while left := dict(self._unreleased(steps)):
            if time.monotonic() > deadline:
                self._change_files(Stage([self._restart_later(first.files)]))
                raise OperationRefused(left)
            time.sleep(_POLL_INTERVAL)

    def _restart_later(self, files: NetworkPaths) -> Operation:
        """Write the restart marker, so that the next converge restarts dnsmasq."""
        mark = MarkReload(files, Reload.RESTART)
        return Operation(f"files/{files.network}", mark.text, frozenset(), mark)

    def _unreleased(self, steps: Mapping[Operation, ReleaseLease]) -> Iterator[tuple[object, str]]:
        files = next(iter(steps.values())).files
        text = read_consistent(files.leases, self._supervisor().pid(process_key(files.network)))
        for operation, step in steps.items():
            if not step.orphaned and step.lease in find_leases(text, [step.lease.address]):
                yield operation, f"dnsmasq keeps the lease for {step.lease.holder}: started again"


def _without_argv(run: Operation) -> Operation:
    """Return *run* without its command line, which does not help if the program is missing."""
    return Operation(run.backend, "start", run.owners, run.payload)


def _all(stage: Stage, why: str) -> dict[object, str]:
    return dict.fromkeys(stage.operations, why)
