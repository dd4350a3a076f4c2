"""Status cache: the reports of agents that are still valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from netfw.drivers.values.reports import Heartbeat, Report, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Ref, Resource
from netfw.model.router import HaRole, Router
from netfw.state.dependencies import AgentRoot
from netfw.state.dependency_closure import Touched
from netfw.state.status_decision import find_deciding_report
from netfw.state.store import Store

R = TypeVar("R", StatusReport, RoleReport)


class StatusCache:
    """The newest report of each host on each resource that it implements.

    Not thread-safe: the owner locks.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statuses: dict[Ref, dict[AgentRoot, StatusReport]] = {}
        self._roles: dict[Ref, dict[AgentRoot, RoleReport]] = {}
        self._heartbeats: dict[tuple[str, str], Heartbeat] = {}

    def record(self, reports: Iterable[Report]) -> tuple[Report, ...]:
        """Store valid reports; return those with new content, in order."""
        return tuple(report for report in reports if self._record(report))

    def status(self, target: Ref, service: Service) -> StatusReport | None:
        """Return the report that decides the status of *target*, or ``None``."""
        reports = [
            report
            for root, report in self._statuses.get(target, {}).items()
            if root.service is service and self._store.serves(root, target)
        ]
        return find_deciding_report(self._store.resources.get(target), reports)

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        """Return the role that each host of *router* reported."""
        return {
            root.host: report.role
            for root, report in self._roles.get(router, {}).items()
            if self._store.serves(root, router)
        }

    @property
    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """The last heartbeat of each agent."""
        return tuple(self._heartbeats.values())

    def discard(self, targets: Iterable[Ref]) -> None:
        """Discard the reports on resources that are gone."""
        for target in targets:
            self._statuses.pop(target, None)
            self._roles.pop(target, None)

    def discard_unserved(self, touched: Touched) -> None:
        """Discard the reports of hosts on resources that they no longer implement, and the roles of
        routers that are no longer highly available."""
        for root, targets in touched.items():
            for target in targets:
                is_served = self._store.serves(root, target)
                if not is_served:
                    self._statuses.get(target, {}).pop(root, None)
                if not (is_served and has_role(self._store.resources.get(target))):
                    self._roles.get(target, {}).pop(root, None)

    def _record(self, report: Report) -> bool:
        match report:
            case Heartbeat(agent=agent):
                self._heartbeats[agent.host, agent.binary] = report
                return True
            case StatusReport():
                return self._is_valid(report) and _set(self._statuses, report)
            case RoleReport():
                return self._is_valid(report) and _set(self._roles, report)

    def _is_valid(self, report: StatusReport | RoleReport) -> bool:
        resource = self._store.resources.get(report.ref)
        if resource is None or not self._store.serves(
            AgentRoot(report.service, report.host), report.ref
        ):
            return False
        if isinstance(report, RoleReport):
            return has_role(resource)
        return report.revision == resource.revision


def has_role(resource: Resource | None) -> bool:
    """Return whether hosts have roles for *resource*: it is a highly available router."""
    return isinstance(resource, Router) and resource.ha


def _set(cache: dict[Ref, dict[AgentRoot, R]], report: R) -> bool:
    by_root, root = cache.setdefault(report.ref, {}), AgentRoot(report.service, report.host)
    if by_root.get(root) == report:
        return False
    by_root[root] = report
    return True
