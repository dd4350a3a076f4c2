"""LeaseMonitor: reports the prefixes that providers delegate, from the lease files of clients."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from ipaddress import IPv6Network
from pathlib import Path

from attrs import define, field

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.values.events import Event
from netfw.drivers.values.router_values import PrefixDelegated
from netfw.errors import NetfwError
from netfw.linux.fs.atomic_files import read_file
from netfw.model.values.ids import SubnetId
from netfw_drivers.linux_router.config.dhclient import (
    Delegation,
    PrefixClient,
    find_prefixes,
    parse_leases,
)
from netfw_drivers.linux_router.plan.names import PartId, part_key

LOG = logging.getLogger(__name__)
_INTERVAL = 1.0
"""Seconds between two looks at the lease files."""


@define(eq=False)
class _Watched:
    """The lease file of one client."""

    path: Path
    client: PrefixClient
    is_shared: bool
    """Whether another host may have renewed what seems to have expired here."""
    version: tuple[int, int] | None = None
    leases: dict[int, tuple[Delegation, ...]] = field(factory=dict)
    reported: dict[SubnetId, IPv6Network | None] = field(factory=dict)

    def read(self, now: float) -> dict[SubnetId, IPv6Network | None]:
        """Return the prefixes that changed since they were reported last."""
        try:
            status = self.path.stat()
        except OSError:
            return {}
        version = (status.st_mtime_ns, status.st_size)
        if version != self.version:
            self.leases = parse_leases(read_file(self.path) or "")
            self.version = version
        return {
            subnet: prefix
            for subnet, prefix in find_prefixes(self.client, self.leases, now).items()
            if self._is_new(subnet, prefix)
        }

    def succeed(self, former: _Watched) -> None:
        """Report nothing again that was reported of *former*: a client with the same device, for
        other subnets."""
        if former.client.mac == self.client.mac:
            present = {*self.client.subnets.values()}
            known = former.reported.items()
            self.reported = {subnet: prefix for subnet, prefix in known if subnet in present}

    def _is_new(self, subnet: SubnetId, prefix: IPv6Network | None) -> bool:
        if subnet not in self.reported:
            return prefix is not None or not self.is_shared
        return self.reported[subnet] != prefix


class LeaseMonitor:
    """Looks at the lease files of all clients, in one thread.

    :param notify: called with events, from any thread.
    """

    def __init__(self, notify: Callable[[Event], None]) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._watched: dict[PartId, _Watched] = {}
        self._stop: threading.Event | None = None

    def watch(self, part: PartId, client: PrefixClient, path: Path, *, is_shared: bool) -> None:
        """Report what was delegated to a client, and every change of it.

        A client in place of another one of the part reports what changed alone.

        :raises BackendUnavailable: the machine has no thread left.
        """
        with self._lock:
            former = self._watched.get(part)
            if former is not None and former.client == client:
                return
            watched = _Watched(path, client, is_shared)
            if former is not None:
                watched.succeed(former)
            if self._stop is None:
                self._stop = self._start()
            self._watched[part] = watched

    def forget(self, part: PartId) -> None:
        """Forget a client that ended.  The last one ends the thread."""
        with self._lock:
            self._watched.pop(part, None)
            if not self._watched and self._stop is not None:
                self._stop.set()
                self._stop = None

    def close(self) -> None:
        """Forget all clients."""
        with self._lock:
            parts = [*self._watched]
        for part in parts:
            self.forget(part)

    def _start(self) -> threading.Event:
        """Start the thread; return what ends it."""
        stop = threading.Event()
        start_daemon_thread("netfw-leases", "leases cannot be watched", self._run, stop)
        return stop

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(_INTERVAL):
            with self._lock:
                watched = [*self._watched.items()]
            for part, each in watched:
                try:
                    self._report(part, each)
                except (NetfwError, OSError) as error:
                    LOG.warning("router %s: its leases cannot be read: %s", part, error)
                except Exception:  # the thread serves all routers
                    LOG.exception("router %s: its leases were not reported", part)

    def _report(self, part: PartId, watched: _Watched) -> None:
        for subnet, prefix in watched.read(time.time()).items():
            with self._lock:
                if self._watched.get(part) is not watched:
                    return
                watched.reported[subnet] = prefix
            reason = "the provider delegated it" if prefix else "the lease expired"
            self._notify(PrefixDelegated(reason, part_key(part).router, subnet, prefix))
