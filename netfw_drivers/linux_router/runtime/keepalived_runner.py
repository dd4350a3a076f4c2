"""Runs the keepalived of each highly available router."""

from __future__ import annotations

import logging
import signal
import time
from functools import partial
from typing import ClassVar

from attrs import evolve

from netfw.errors import NotFound
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.process import Program, handles
from netfw.model.ids import RouterId
from netfw.model.router import HaRole
from netfw_drivers.linux_router.config.keepalived import VirtualAddress, parse_addresses
from netfw_drivers.linux_router.plan.ha_role import decide_role
from netfw_drivers.linux_router.plan.keepalived_plan import (
    SERVICE,
    KeepalivedStep,
    StopKeepalived,
    make_program,
)
from netfw_drivers.linux_router.plan.names import router_namespace
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner

LOG = logging.getLogger(__name__)

_RELOAD_TIMEOUT = 10.0
"""Seconds until keepalived has read its configuration; 500 new addresses take one."""
_POLL_INTERVAL = 0.01


class KeepalivedRunner(DaemonRunner):
    """One keepalived for each highly available router, on each of its hosts."""

    SERVICE: ClassVar[str] = SERVICE
    MODE: ClassVar[int] = 0o600  # it has the password
    OWN_SUFFIXES: ClassVar[tuple[str, ...]] = (".pid", ".vrrp.pid")

    def make_program(self, router: RouterId) -> Program:
        """Return the program; a signal before it handles signals would end it."""
        ready = partial(handles, number=signal.SIGHUP)
        return evolve(make_program(router, self._settings), ready=ready)

    def execute(self, step: KeepalivedStep) -> None:
        """Execute one step; an active instance has its new addresses afterwards.

        :raises OperationRefused: a file was refused, or keepalived ended at once.
        :raises BackendError: keepalived is missing, or the machine refused.
        """
        if isinstance(step, StopKeepalived):
            self.stop(step.router)
            return
        before = parse_addresses(self.observe(step.router).text or "")
        reloaded = self.write(step.router, step.text_of_file)
        if step.program is not None:
            self.start(step.router)
        if reloaded:
            after = frozenset(parse_addresses(step.text_of_file))
            _wait_until_applied(step.router, after, frozenset(before) - after)

    def read_role(self, router: RouterId) -> HaRole | None:
        """Read the role of a router on this host; None if it is not highly available.

        :raises NotFound: it is not on this host.
        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        running = self.is_running(router)
        with NetlinkClient(router_namespace(router)) as network:
            return network.run(lambda: _decide_role(network, running=running))


def _decide_role(network: NetlinkClient, *, running: bool) -> HaRole | None:
    addresses = (each.address for each in network.addresses())
    return decide_role(network.links(), addresses, running=running)


def _wait_until_applied(
    router: RouterId, present: frozenset[VirtualAddress], gone: frozenset[VirtualAddress]
) -> None:
    """Wait until an active instance has exactly those addresses; a standby one has none."""
    deadline = time.monotonic() + _RELOAD_TIMEOUT
    try:
        with NetlinkClient(router_namespace(router)) as network:
            while time.monotonic() < deadline:
                found = [each.address for each in network.addresses()]
                if decide_role(network.links(), found, running=True) is not HaRole.ACTIVE:
                    return
                there = {VirtualAddress(each.device, each.interface) for each in found}
                if present <= there and not gone & there:
                    return
                time.sleep(_POLL_INTERVAL)
    except NotFound:
        return  # another program removed the namespace, which is found at the next observation
    LOG.warning("router %s: keepalived has not applied its configuration in time", router)
