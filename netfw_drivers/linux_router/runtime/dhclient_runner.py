"""Runs the client for delegated prefixes of each router that needs one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from netfw.drivers.values.events import Event
from netfw.errors import BackendBroken
from netfw.linux.fs.atomic_files import WriteFile, change_files, read_file
from netfw.linux.process import Program, StartedProcess
from netfw.model.router import HaRole
from netfw_drivers.linux_router.config.dhclient import (
    PrefixClient,
    parse_client,
    render_identity,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.daemons.delegation_plan import LEASES, SERVICE, make_program
from netfw_drivers.linux_router.plan.names import PartId, part_key
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner, RouterProcesses
from netfw_drivers.linux_router.runtime.lease_monitor import LeaseMonitor


class DhclientRunner(DaemonRunner):
    """One dhclient for each router with delegated prefixes; its leases survive it.

    :param is_ha: returns whether a router is highly available.
    :param notify: called with events, from any thread.
    """

    SERVICE: ClassVar[str] = SERVICE
    OWN_SUFFIXES: ClassVar[tuple[str, ...]] = (LEASES,)
    CAN_RELOAD: ClassVar[bool] = False

    def __init__(
        self,
        settings: RouterSettings,
        processes: RouterProcesses,
        is_ha: Callable[[PartId], bool],
        notify: Callable[[Event], None],
    ) -> None:
        super().__init__(settings, processes)
        self._is_ha = is_ha
        self._leases = LeaseMonitor(notify)

    def make_program(self, router: PartId) -> Program:
        return make_program(router, self._read_client(router), self._settings)

    def run(self, step: RunDaemon) -> None:
        if step.program is None:
            self.halt(step.router)
        else:  # its leases go on
            self._end(step.router)
        text = WriteFile(str(self._path(step.router)), step.text_of_file, self.MODE)
        change_files([text], self._scratch)
        if step.program is not None:
            self.start(step.router)

    def start(self, router: PartId) -> StartedProcess:
        """Start as every daemon, with the identifier of the router, and report its leases."""
        leases = self._lease_path(router)
        if not leases.exists():
            identity = render_identity(part_key(router).router)
            change_files([WriteFile(str(leases), identity, self.MODE)], self._scratch)
        process = super().start(router)
        self._watch(router)
        return process

    def supervise(self, router: PartId) -> bool:
        reloaded = super().supervise(router)
        if router in self._supervised:
            self._watch(router)
        return reloaded

    def follow_role(self, router: PartId, role: HaRole) -> None:
        """Start or end the client of a highly available router; errors as of `start`."""
        if role is HaRole.ACTIVE:
            self.start_configured(router)
        else:
            self.halt(router)

    def halt(self, router: PartId) -> None:
        """End the process; its files stay.

        :raises BackendError: the machine refused.
        """
        self._leases.forget(router)
        self._end(router)

    def stop(self, router: PartId) -> None:
        self._leases.forget(router)
        super().stop(router)

    def forget(self) -> None:
        super().forget()
        self._leases.close()

    def _end(self, router: PartId) -> None:
        self._supervisor.stop(self._key(router))
        self._supervised.discard(router)

    def _watch(self, router: PartId) -> None:
        client, leases = self._read_client(router), self._lease_path(router)
        self._leases.watch(router, client, leases, is_shared=self._is_ha(router))

    def _read_client(self, router: PartId) -> PrefixClient:
        client = parse_client(read_file(self._path(router)) or "")
        if client is None:
            raise BackendBroken(f"{self._path(router)}: not a configuration of this driver")
        return client

    def _lease_path(self, router: PartId) -> Path:
        path = self._path(router)
        return path.with_name(f"{path.name}{LEASES}")
