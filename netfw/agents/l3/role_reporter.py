"""Role reports of highly available routers, batched; latest wins."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from netfw.drivers.values.reports import RoleReport
from netfw.model.resource import ref
from netfw.model.router import HaRole, Router
from netfw.model.values.ids import RouterId
from netfw.model.values.text_validation import render_names

LOG = logging.getLogger(__name__)

MICROSECONDS = 1_000_000


class RoleReporter:
    """Keeps the role of each router on this host, and returns the reports that changed.

    Changes are collected for *interval* seconds, so that an election of many routers is one
    message, and a role that is back by then is none.  Roles come from any thread; the other methods
    are for the loop.
    """

    def __init__(self, host: str, interval: float, boot: UUID | None = None) -> None:
        self._host, self._interval, self._boot = host, interval, boot
        self._lock = threading.Lock()
        self._roles: dict[RouterId, HaRole] = {}
        self._since: dict[RouterId, int] = {}
        """When routers took their roles, in microseconds; no two changes have the same time."""
        self._latest = 0
        self._numbers: Counter[HaRole] = Counter()
        self._events: Counter[RouterId] = Counter()
        """Numbers of the events of routers, so that a status read before an event is discarded."""
        self._absent: set[RouterId] = set()
        """Routers that are not on this host: they take no part in their election."""
        self._changed: set[RouterId] = set()
        """Routers whose role changed since it was reported."""
        self._due: float | None = None
        """When the changed roles are reported."""
        self._touched: set[RouterId] = set()
        """Routers whose role is reported at once."""
        self._sent: dict[RouterId, RoleReport] = {}

    def record_event(
        self, router: RouterId, role: HaRole, now: float, reason: str = ""
    ) -> HaRole | None:
        """Record the role that an event of the driver reports; return the former one.

        The event of a router that was removed meanwhile is late, and changes nothing.
        """
        with self._lock:
            self._events[router] += 1
            former = self._roles.get(router)
            if router not in self._absent:
                self._set_role(router, role, now, reason)
            return former

    def record_status(
        self, router: RouterId, read_role: Callable[[], HaRole | None], now: float
    ) -> None:
        """Record the role that *read_role* returns, unless an event came meanwhile."""
        with self._lock:
            self._absent.discard(router)
            events = self._events[router]
        role = read_role()
        with self._lock:
            if self._events[router] == events and role is not None:
                self._set_role(router, role, now)

    def record_absent(self, router: RouterId, now: float) -> None:
        """Record that a router is not on this host; if the source has it here, it is in fault."""
        with self._lock:
            self._discard_role(router)
            if router not in self._absent:
                self._absent.add(router)
                self._mark_changed(router, now)

    def touch(self, routers: Iterable[RouterId]) -> None:
        """Have the roles of *routers* reported at once, even unchanged ones.

        The source delivered the routers again.  A role counts whatever revision its router has, but
        the source discards it when it takes the router from this host, if only for a moment.
        """
        with self._lock:
            for router in routers:
                self._sent.pop(router, None)
                if router in self._roles or router in self._absent:
                    self._touched.add(router)

    def resend(self) -> None:
        """Have all roles reported at once."""
        with self._lock:
            self._sent.clear()
            self._touched.update(self._roles, self._absent)

    def discard(self, router: RouterId) -> None:
        """Discard the role of a router that is not highly available on this host any more."""
        with self._lock:
            self._discard(router)

    def take(
        self, router_of: Callable[[RouterId], Router | None], now: float
    ) -> tuple[RoleReport, ...]:
        """Return the reports that are due; *router_of* returns ``None`` for a router that the
        source does not have on this host, or that is not highly available."""
        with self._lock:
            routers, self._touched = self._touched, set()
            if self._due is not None and self._due <= now:
                routers |= self._changed
                self._changed, self._due = set(), None
            reports = [self._make_report(id, router_of(id)) for id in sorted(routers)]
            return tuple(report for report in reports if report is not None)

    def delay(self, now: float) -> float | None:
        """Return the seconds until `take` returns something; ``None``: nothing is kept back."""
        with self._lock:
            if self._touched:
                return 0.0
            return None if self._due is None else max(0.0, self._due - now)

    def count(self, role: HaRole) -> int:
        """Return how many routers have a role."""
        return self._numbers[role]

    def warnings(self) -> Mapping[str, str]:
        """Return a warning if routers cannot take part in their election."""
        with self._lock:
            if not self._numbers[HaRole.FAULT]:
                return {}
            faulty = sorted(str(id) for id, role in self._roles.items() if role is HaRole.FAULT)
        return {
            "high availability": f"router {render_names(faulty, len(faulty))}: this host takes no "
            "part in the election of the active host; see the log of the agent"
        }

    def _set_role(self, router: RouterId, role: HaRole, now: float, reason: str = "") -> None:
        former = self._roles.get(router)
        if former is role:
            return
        why = f": {reason}" if reason else ""
        LOG.info("router %s: its role is %s, was %s%s", router, role, former or "unknown", why)
        self._discard_role(router)
        self._roles[router] = role
        self._numbers[role] += 1
        self._mark_changed(router, now)

    def _mark_changed(self, router: RouterId, now: float) -> None:
        self._latest = self._since[router] = max(int(now * MICROSECONDS), self._latest + 1)
        self._changed.add(router)
        if self._due is None:
            self._due = now + self._interval

    def _discard(self, router: RouterId) -> None:
        self._discard_role(router)
        self._absent.discard(router)
        self._sent.pop(router, None)
        self._events.pop(router, None)
        self._since.pop(router, None)

    def _discard_role(self, router: RouterId) -> None:
        if (former := self._roles.pop(router, None)) is not None:
            self._numbers[former] -= 1

    def _make_report(self, id: RouterId, router: Router | None) -> RoleReport | None:
        """Return the report on a router, unless it equals the last one."""
        if router is None:
            self._discard(id)
            return None
        role = HaRole.FAULT if id in self._absent else self._roles.get(id)
        if role is None:
            return None
        report = RoleReport(
            ref=ref(router),
            revision=router.revision,
            host=self._host,
            role=role,
            boot=self._boot,
            since=self._since[id],
        )
        if self._sent.get(id) == report:
            return None
        self._sent[id] = report
        return report
