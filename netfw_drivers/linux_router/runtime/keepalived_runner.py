"""Runs the keepalived of each highly available router."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from attrs import evolve, frozen

from netfw.errors import BackendUnavailable, NetfwError, NotFound
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.values import PROTOCOL_KEEPALIVED, IpRoute
from netfw.linux.process import Program, handles
from netfw.model.router import HaRole
from netfw_drivers.linux_router.config.keepalived import (
    VirtualAddress,
    configured_routes,
    parse_addresses,
    parse_route_errors,
    routes_of_lines,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import RunDaemon
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import (
    SERVICE,
    make_program,
)
from netfw_drivers.linux_router.plan.ha_role import decide_role, is_marker
from netfw_drivers.linux_router.plan.names import (
    CENTRAL_INTERFACE,
    GATEWAY,
    INTERFACE,
    PartId,
    router_namespace,
)
from netfw_drivers.linux_router.plan.unapplied_addresses import unapplied_text
from netfw_drivers.linux_router.runtime.daemon_runner import DaemonRunner, RouterProcesses
from netfw_drivers.linux_router.runtime.keepalived_log import LogPosition, read_since

LOG = logging.getLogger(__name__)

RELOAD_TIMEOUT = 10.0
"""Seconds until keepalived has read its configuration, and has its routes or logged why not."""
ADDRESS_TIMEOUT = 0.02
"""Further seconds for each address: ten times what keepalived needs for a new one."""
_POLL_INTERVAL = 0.01


class KeepalivedRunner(DaemonRunner):
    """One keepalived for each highly available router, on each of its hosts."""

    SERVICE: ClassVar[str] = SERVICE
    MODE: ClassVar[int] = 0o600  # it has the password
    OWN_SUFFIXES: ClassVar[tuple[str, ...]] = (".pid", ".vrrp.pid")

    def __init__(self, settings: RouterSettings, processes: RouterProcesses) -> None:
        super().__init__(settings, processes)
        self._unapplied: dict[PartId, frozenset[VirtualAddress]] = {}
        """The configured addresses of instances that did not have them in time."""
        self._reloaded: set[PartId] = set()
        """The instances whose routes were not looked at since their last reload."""
        self._removed: dict[PartId, frozenset[str]] = {}
        """Lines that left the configurations of instances, which may have their routes still."""
        self._log_ends: dict[PartId, LogPosition] = {}
        """Where the logs of instances ended before their last reload."""
        self._route_errors: dict[PartId, tuple[str, ...]] = {}
        """Why the kernel refused routes since then, as the logs said."""

    def make_program(self, router: PartId) -> Program:
        """Return the program; a signal before it handles signals would end it."""
        ready = partial(handles, number=signal.SIGHUP)
        return evolve(make_program(router, self._settings), ready=ready)

    def run(self, step: RunDaemon) -> None:
        """Run as every daemon; an active instance has its new addresses afterwards.

        Those that it does not have in time are `missing_addresses`.
        """
        before = self.observe(step.router).text or ""
        reloaded = self.write(step.router, step.text_of_file)
        if step.program is not None:
            self.start(step.router)
        if reloaded:
            lines = self._removed.get(step.router, frozenset()).union(before.splitlines())
            self._removed[step.router] = lines.difference(step.text_of_file.splitlines())
            after = frozenset(parse_addresses(step.text_of_file))
            gone = frozenset(parse_addresses(before)) - after
            self._await_reload(step.router, after, gone)

    def write(self, router: PartId, text: str) -> bool:
        self._set_log_end(router, self._log_end(router))
        return super().write(router, text)

    def supervise(self, router: PartId) -> bool:
        log_end = self._log_end(router)
        reloaded = super().supervise(router)
        if reloaded:
            self._set_log_end(router, log_end)
            present = parse_addresses(self.observe(router).text or "")
            self._await_reload(router, frozenset(present))
        return reloaded

    def stop(self, router: PartId) -> None:
        for cached in self._caches:
            cached.pop(router, None)
        self._reloaded.discard(router)
        super().stop(router)

    @property
    def _caches(self) -> tuple[dict[PartId, Any], ...]:
        return self._unapplied, self._removed, self._log_ends, self._route_errors

    def has_released(self, router: PartId) -> bool:
        """Return whether keepalived has removed its addresses and routes.

        It has told the other instances before, and ends a second later.
        """
        try:
            with NetlinkClient(router_namespace(router)) as network:
                return network.run(lambda: _is_bare(network))
        except NotFound:
            return True
        except NetfwError:
            return False

    def forget(self) -> None:
        for cached in self._caches:
            cached.clear()
        self._reloaded.clear()
        super().forget()

    def missing_addresses(self, router: PartId) -> frozenset[VirtualAddress]:
        """Return the addresses that an active instance did not have in time, and still has not.

        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        expected = self._unapplied.get(router)
        if expected is None:
            return frozenset()
        try:
            with NetlinkClient(router_namespace(router)) as network:
                missing = _find_unapplied(network, expected).missing
        except NotFound:
            missing = frozenset()
        if not missing:
            self._unapplied.pop(router, None)
        return missing

    def refused_routes(self, router: PartId, routes: Iterable[IpRoute]) -> dict[IpRoute, str]:
        """Return those of *routes* that the kernel refused, each with the reason.

        Only an active instance has routes.

        :raises BackendUnavailable: keepalived has not read its configuration in time, or has not
            removed a route in time, or the kernel was too busy to answer.
        """
        wanted = configured_routes(self.observe(router).text or "", routes)
        timeout = RELOAD_TIMEOUT if router in self._reloaded else 0.0
        self._reloaded.discard(router)
        deadline = time.monotonic() + timeout
        try:
            with NetlinkClient(router_namespace(router)) as network:
                refused = self._await_routes(network, router, wanted, deadline)
                self._await_removal(network, router, deadline)
        except NotFound:
            return {}  # another program removed the namespace: found at the next observation
        return refused

    def _await_routes(
        self, network: NetlinkClient, router: PartId, wanted: Iterable[IpRoute], deadline: float
    ) -> dict[IpRoute, str]:
        """Wait until an active instance has its routes, or has logged why not."""
        while missing := network.run(lambda: _find_missing(network, wanted)):
            errors = self._find_route_errors(router)
            if errors is not None and len(errors) >= len(missing):
                return dict.fromkeys(missing, "; ".join(dict.fromkeys(errors)))
            if time.monotonic() > deadline:
                if errors is None:
                    raise BackendUnavailable(unapplied_text(each.destination for each in missing))
                break  # it does not say why they are not there
            time.sleep(_POLL_INTERVAL)
        return {}

    def _await_removal(self, network: NetlinkClient, router: PartId, deadline: float) -> None:
        """Wait until an active instance has no route that its configuration has lost."""
        lines = self._removed.get(router, frozenset())
        while remaining := network.run(
            lambda: routes_of_lines(lines, _active_routes(network) or ())
        ):
            if time.monotonic() > deadline:
                raise BackendUnavailable(unapplied_text(map(_removal_text, remaining)))
            time.sleep(_POLL_INTERVAL)
        self._removed.pop(router, None)

    def read_role(self, router: PartId) -> HaRole | None:
        """Read the role of a router on this host; None if it is not highly available.

        :raises NotFound: it is not on this host.
        :raises BackendUnavailable: the kernel was too busy to answer.
        """
        running = self.is_running(router)
        with NetlinkClient(router_namespace(router)) as network:
            return network.run(lambda: _decide_role(network, running=running))

    def _log_end(self, router: PartId) -> LogPosition:
        pid = self._supervisor.pid(self._key(router))
        return LogPosition.end_of(self._log_path(router), pid)

    def _set_log_end(self, router: PartId, position: LogPosition) -> None:
        """Have the log read from *position*: a reload follows it."""
        self._log_ends[router] = position
        self._route_errors.pop(router, None)

    def _find_route_errors(self, router: PartId) -> tuple[str, ...] | None:
        """Return why the kernel refused routes since the last reload; None: it tried none yet."""
        errors = parse_route_errors(self._read_log(router))
        if errors is not None:
            self._route_errors[router] = errors
        return self._route_errors.get(router)

    def _may_trim_log(self, router: PartId) -> bool:
        """Read what the log says of routes first; after a reload it has yet to be written."""
        if router in self._reloaded:
            return False
        self._find_route_errors(router)
        self._log_ends.pop(router, None)
        return True

    def _read_log(self, router: PartId) -> str:
        """Return the log since the last reload."""
        position, pid = self._log_ends.get(router), self._supervisor.pid(self._key(router))
        return read_since(position, self._log_path(router), pid)

    def _await_reload(
        self,
        router: PartId,
        present: frozenset[VirtualAddress],
        gone: frozenset[VirtualAddress] = frozenset(),
    ) -> None:
        """Wait until an active instance has the addresses *present*, and none of *gone*."""
        self._unapplied.pop(router, None)
        self._reloaded.add(router)
        timeout = RELOAD_TIMEOUT + ADDRESS_TIMEOUT * len(present | gone)
        deadline = time.monotonic() + timeout
        try:
            with NetlinkClient(router_namespace(router)) as network:
                while _find_unapplied(network, present, gone):
                    if time.monotonic() > deadline:
                        LOG.warning(
                            "router %s: keepalived has not applied its configuration in %g s",
                            router,
                            timeout,
                        )
                        self._unapplied[router] = present
                        return
                    time.sleep(_POLL_INTERVAL)
        except NotFound:
            return  # another program removed the namespace, which is found at the next observation


def _decide_role(network: NetlinkClient, *, running: bool) -> HaRole | None:
    addresses = (each.address for each in network.addresses())
    return decide_role(network.links(), addresses, running=running)


def _active_routes(network: NetlinkClient) -> list[IpRoute] | None:
    """Return the routes of keepalived; None: the instance is not active, and needs none."""
    if _decide_role(network, running=True) is not HaRole.ACTIVE:
        return None
    return [each for each in network.static_routes() if each.protocol == PROTOCOL_KEEPALIVED]


def _removal_text(route: IpRoute) -> str:
    return f"the removal of {route.destination}"


def _find_missing(network: NetlinkClient, routes: Iterable[IpRoute]) -> list[IpRoute]:
    """Return those of *routes* that an active instance does not have; another one needs none."""
    found = _active_routes(network)
    if found is None:
        return []
    there = {(each.destination, frozenset(each.hops)) for each in found}
    return [each for each in routes if (each.destination, frozenset(each.hops)) not in there]


def _is_bare(network: NetlinkClient) -> bool:
    """Return whether a namespace has neither addresses nor routes of keepalived."""
    found = (each.address for each in network.addresses())
    devices = (INTERFACE, CENTRAL_INTERFACE, GATEWAY)
    return not any(
        is_marker(each) or each.device.startswith(devices) for each in found
    ) and not any(each.protocol == PROTOCOL_KEEPALIVED for each in network.static_routes())


@frozen
class _Unapplied:
    """The difference between a configuration and the addresses of an active instance."""

    missing: frozenset[VirtualAddress] = frozenset()
    remaining: frozenset[VirtualAddress] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.missing or self.remaining)


def _find_unapplied(
    network: NetlinkClient,
    present: frozenset[VirtualAddress],
    gone: frozenset[VirtualAddress] = frozenset(),
) -> _Unapplied:
    """Compare the addresses of an active instance; another one has none, as it should."""
    found = [each.address for each in network.addresses()]
    if decide_role(network.links(), found, running=True) is not HaRole.ACTIVE:
        return _Unapplied()
    there = {VirtualAddress(each.device, each.interface) for each in found}
    return _Unapplied(present - there, gone & there)
