"""StatusBook: what agents reported, as far as it still counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from netfw.drivers.reports import Heartbeat, Report, RoleReport, StatusReport
from netfw.drivers.router_values import HaRole
from netfw.drivers.subscription import Service
from netfw.model.resource import Ref
from netfw.state.dependencies import AgentRoot
from netfw.state.store import Store

R = TypeVar("R", StatusReport, RoleReport)


class StatusCache:
    """The newest report of each host on each resource in its care.

    Not thread-safe: its owner locks.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statuses: dict[Ref, dict[AgentRoot, StatusReport]] = {}
        self._roles: dict[Ref, dict[AgentRoot, RoleReport]] = {}
        self._heartbeats: dict[tuple[str, str], Heartbeat] = {}

    def hear(self, reports: Iterable[Report]) -> tuple[Report, ...]:
        """Keep what counts; return those that say something new, in order."""
        return tuple(report for report in reports if self._keep(report))

    def status(self, target: Ref, service: Service) -> StatusReport | None:
        """What the host that has *target* in its care said last; ``None``: nothing yet."""
        for root, report in self._statuses.get(target, {}).items():
            if root.service is service and self._store.serves(root, target):
                return report
        return None

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        """The role that each of the hosts that have *router* in their care said it has."""
        return {
            root.host: report.role
            for root, report in self._roles.get(router, {}).items()
            if self._store.serves(root, router)
        }

    @property
    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """The last one of each agent."""
        return tuple(self._heartbeats.values())

    def forget(self, targets: Iterable[Ref]) -> None:
        """Forget what was said of resources that are gone."""
        for target in targets:
            self._statuses.pop(target, None)
            self._roles.pop(target, None)

    def _keep(self, report: Report) -> bool:
        match report:
            case Heartbeat(agent=agent):
                self._heartbeats[agent.host, agent.binary] = report
                return True
            case StatusReport():
                return self._counts(report) and _set(self._statuses, report)
            case RoleReport():
                return self._counts(report) and _set(self._roles, report)

    def _counts(self, report: StatusReport | RoleReport) -> bool:
        resource = self._store.resources.get(report.ref)
        return (
            resource is not None
            and resource.revision == report.revision
            and self._store.serves(AgentRoot(report.service, report.host), report.ref)
        )


def _set(book: dict[Ref, dict[AgentRoot, R]], report: R) -> bool:
    page, root = book.setdefault(report.ref, {}), AgentRoot(report.service, report.host)
    if page.get(root) == report:
        return False
    page[root] = report
    return True
