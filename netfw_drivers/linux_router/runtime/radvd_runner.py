"""Runs the radvd of each router that advertises."""

from __future__ import annotations

import logging
import pwd
import time
from typing import ClassVar

from netfw.errors import ConfigError, NetfwError
from netfw.linux.process import Program, is_asleep
from netfw.linux.sockets.prefix_withdrawal import withdraw_prefixes
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.daemons.radvd_plan import (
    SERVICE,
    WithdrawPrefixes,
    make_program,
)
from netfw_drivers.linux_router.plan.names import PartId, router_namespace
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner

LOG = logging.getLogger(__name__)

_WITHDRAWALS = 3
"""Number of advertisements that withdraw prefixes, as some frames are lost."""
_RELOAD_TIMEOUT = 2.0
_POLL_INTERVAL = 0.005


class RadvdRunner(DaemonRunner):
    """One radvd for each router that advertises."""

    SERVICE: ClassVar[str] = SERVICE

    def make_program(self, router: PartId) -> Program:
        return make_program(router, self._settings)

    def run(self, step: RunDaemon) -> None:
        reloaded = self.write(step.router, step.text_of_file)
        process = self.start(step.router)
        if reloaded:
            _wait_until_asleep(process.pid)


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


def withdraw(step: WithdrawPrefixes) -> None:
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
