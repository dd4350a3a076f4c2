"""Runs the conntrackd of each highly available router."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from attrs import evolve

from netfw.errors import NetfwError
from netfw.linux.process import Program, StartedProcess, run_command
from netfw.model.router import HaRole
from netfw_drivers.linux_router.config.conntrackd import (
    LOCK,
    SOCKET,
    role_commands,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.conntrackd_plan import (
    SERVICE,
    make_program,
)
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.names import PartId, router_namespace
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner, RouterProcesses

_COMMAND_TIMEOUT = 5.0


class ConntrackdRunner(DaemonRunner):
    """One conntrackd for each highly available router, on each of its hosts.

    :param read_role: reads the role of a router on this host.
    """

    SERVICE: ClassVar[str] = SERVICE
    OWN_SUFFIXES: ClassVar[tuple[str, ...]] = (LOCK, SOCKET)
    CAN_RELOAD: ClassVar[bool] = False

    def __init__(
        self,
        settings: RouterSettings,
        processes: RouterProcesses,
        read_role: Callable[[PartId], HaRole | None],
    ) -> None:
        super().__init__(settings, processes)
        self._read_role = read_role

    def make_program(self, router: PartId) -> Program:
        ready = partial(self._is_ready, router)
        return evolve(make_program(router, self._settings), ready=ready)

    def run(self, step: RunDaemon) -> None:
        if self.observe(step.router).text != step.text_of_file:
            self.stop(step.router)
            self.write(step.router, step.text_of_file)
        if step.program is not None:
            self.start(step.router)

    def start(self, router: PartId) -> StartedProcess:
        """Start as every daemon; one that was killed before it was ready left its lock."""
        if not self.is_running(router):
            self._beside(self._path(router), LOCK).unlink(missing_ok=True)
        return super().start(router)

    def _is_ready(self, router: PartId, pid: int) -> bool:
        """Return whether a conntrackd that was started has what its role needs.

        Its lock is removed, as it would not start again beside that of a killed one.  It begins
        with all connections of the kernel as those to send.
        """
        path, namespace = self._path(router), router_namespace(router)
        if not self._beside(path, SOCKET).is_socket():
            return False
        try:
            role = self._read_role(router)
            is_ready = all(
                run_command(command, namespace=namespace, timeout=_COMMAND_TIMEOUT).ok
                for command in role_commands(path, active=role is HaRole.ACTIVE)
            )
            is_ready = is_ready and self._read_role(router) is role
        except NetfwError:
            return False
        if is_ready:
            self._beside(path, LOCK).unlink(missing_ok=True)
        return is_ready

    @staticmethod
    def _beside(path: Path, suffix: str) -> Path:
        return path.with_name(f"{path.name}{suffix}")
