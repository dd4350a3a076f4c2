"""Drift monitor: detects service namespaces that another program has changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, Protocol, TypeVar

from netfw.errors import BackendUnavailable, NetfwError, NotFound
from netfw.linux.ip.multi_netns_monitor import MultiNetnsMonitor
from netfw.plan import Stage

LOG = logging.getLogger(__name__)

RECHECK_PAUSE = 1.0
"""Seconds until a namespace that could not be observed is compared again."""


class DesiredNetns(Protocol):
    """The desired state of a namespace."""

    @property
    def netns(self) -> str: ...


D = TypeVar("D", bound=DesiredNetns)
D_contra = TypeVar("D_contra", contravariant=True)


class NetnsPlanner(Protocol[D_contra]):
    """Observes a namespace and plans what makes it as desired: an executor."""

    def plan(self, wanted: D_contra, /) -> tuple[Stage, ...]: ...


class DriftMonitor(Generic[D]):
    """Observes a namespace after each change in it, and reports one that is not as desired.

    It is reported once: the receiver repairs the namespace, and then calls `watch` again.  Until
    then the planner still observes it after each change.  One that cannot be observed, since a
    backend is unavailable, is compared again until it can.  Sysctls and rules of iptables-legacy,
    whose changes the kernel does not announce, are not watched.

    :param on_drift: receives the name of the namespace, from a thread of the monitor; never for
        one that is not watched any more.
    """

    def __init__(self, planner: NetnsPlanner[D], on_drift: Callable[[str], None]) -> None:
        self._planner, self._on_drift = planner, on_drift
        self._lock = threading.Lock()
        self._monitor: MultiNetnsMonitor | None = None
        self._watched: dict[str, D] = {}
        self._reported: set[str] = set()
        """Those of the watched namespaces that were reported."""
        self._held: dict[str, bool] = {}
        """Namespaces that are being changed, and whether the kernel has announced a change."""

    def watch(self, desired: D) -> None:
        """Watch a namespace that is as *desired* now.

        :raises NotFound: it is gone.
        :raises BackendError: it cannot be monitored.
        """
        monitor = self._start()
        with self._lock:
            self._watched[desired.netns] = desired
            self._reported.discard(desired.netns)
        monitor.watch(desired.netns)
        with self._lock:
            changed = self._held.get(desired.netns, False)
        if changed:
            monitor.report(desired.netns)

    @contextmanager
    def held(self, names: Iterable[str], *, watch: bool = False) -> Iterator[tuple[D, ...]]:
        """Report none of these namespaces while they are changed; yield how they were desired.

        One that is watched again is compared if anything changed in it meanwhile: the caller's own
        changes, or those of another program that came after its observation.  The others are not
        watched any more.  The callers hold different namespaces.

        :param watch: whether the caller is going to watch them; then this holds for those that
            were not watched before, too, if they exist.
        """
        held = frozenset(names)
        if watch:
            self._monitor_present(held)
        with self._lock:
            self._held |= dict.fromkeys(held, False)
            found = {name: self._watched.pop(name) for name in held & self._watched.keys()}
            watched = tuple(each for name, each in found.items() if name not in self._reported)
            self._reported -= held
        try:
            yield watched
        finally:
            with self._lock:
                for name in held:
                    self._held.pop(name, None)
                ended = held - self._watched.keys()
                monitor = self._monitor
            if monitor is not None:
                for name in ended:
                    monitor.unwatch(name)

    def recheck(self, netns: str, delay: float = 0.0) -> None:
        """Compare a watched namespace after *delay*: what it depends on elsewhere has changed."""
        with self._lock:
            monitor = self._monitor
        if monitor is not None:
            monitor.report(netns, delay)

    def close(self) -> None:
        """Stop reporting.  `watch` starts the monitor anew."""
        with self._lock:
            monitor, self._monitor = self._monitor, None
            self._watched.clear()
            self._reported.clear()
            self._held.clear()
        if monitor is not None:
            monitor.close()

    def _start(self) -> MultiNetnsMonitor:
        with self._lock:
            if self._monitor is None:
                self._monitor = MultiNetnsMonitor(self._check)
            return self._monitor

    def _monitor_present(self, names: Iterable[str]) -> None:
        """Have changes announced in those namespaces that exist."""
        with self._lock:
            new = [name for name in names if name not in self._watched]
        try:
            monitor = self._start()
            for name in new:
                with suppress(NotFound):
                    monitor.watch(name)
        except NetfwError as error:  # `watch` raises it, too
            LOG.info("changes in %d namespaces are not announced yet: %s", len(new), error)

    def _check(self, changed: frozenset[str]) -> None:
        for netns in sorted(changed):
            with self._lock:
                if netns in self._held:
                    self._held[netns] = True
                desired = self._watched.get(netns)
            try:
                if desired is not None and self._has_drifted(desired):
                    self._report(desired)
            except Exception:  # the other namespaces are still watched
                LOG.exception("%s cannot be compared", netns)

    def _has_drifted(self, desired: D) -> bool:
        try:
            return bool(self._planner.plan(desired))
        except BackendUnavailable:
            self.recheck(desired.netns, RECHECK_PAUSE)  # the backend is reported elsewhere
            return False
        except NetfwError:
            return True

    def _report(self, desired: D) -> None:
        with self._lock:
            is_current = self._watched.get(desired.netns) is desired
            is_known = desired.netns in self._reported
            if is_current:
                self._reported.add(desired.netns)
        if not is_current:
            self.recheck(desired.netns)  # what changed it meanwhile may not have repaired it
        elif not is_known:
            self._on_drift(desired.netns)
