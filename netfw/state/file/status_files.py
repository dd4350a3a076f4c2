"""Status files: the reports of agents, one file for each service of each host.

A file is replaced atomically, so that a reader never sees half of one.  It is JSON with one line
for each resource; a new report renders one line.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from attrs import define, field, frozen

from netfw.drivers.values.reports import Heartbeat, Report, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Ref, Resource
from netfw.state.dependencies import AgentRoot
from netfw.state.status_cache import has_role

FORMAT: Final = 1
MODE: Final = 0o644

Resources = Mapping[Ref, Resource]
Serves = Callable[[AgentRoot, Ref], bool]
EntryKey = tuple[Ref, type[Report]]


@frozen
class StatusEntry:
    """The report on one resource, and its text in the file."""

    report: StatusReport | RoleReport
    at: str
    wanted: int
    text: str


@define
class ServiceStatus:
    """The reports of one service of one host."""

    lines: dict[EntryKey, StatusEntry] = field(factory=dict)
    dirty: bool = True


class StatusFiles:
    """The newest reports, rendered for writing.  Not thread-safe: the owner locks."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._statuses: dict[AgentRoot, ServiceStatus] = {}
        self._agents: dict[str, dict[str, dict[str, Any]]] = {}

    def open(self, root: AgentRoot) -> None:
        """Create a file for *root* with the next `write`."""
        if root.service is not Service.POPULATION:
            self._statuses.setdefault(root, ServiceStatus())

    def record(self, report: Report, resource: Resource | None, serves: Serves) -> None:
        """Store a report on *resource*, unless `update` would remove it."""
        if isinstance(report, Heartbeat):
            self._record_heartbeat(report)
            return
        root = AgentRoot(report.service, report.host)
        self.open(root)
        if resource is not None and _is_current(report, resource, serves):
            page = self._statuses[root]
            page.lines[report.ref, type(report)] = _line(report, now(), resource)
            page.dirty = True

    def update(self, resources: Resources, serves: Serves) -> None:
        """Remove reports on resources that are gone or moved, and roles of routers that are not
        highly available any more; update the desired revisions."""
        for page in self._statuses.values():
            page.dirty = True
            for key, line in tuple(page.lines.items()):
                resource = resources.get(key[0])
                if resource is None or not _is_current(line.report, resource, serves):
                    del page.lines[key]
                elif resource.revision != line.wanted:
                    page.lines[key] = _line(line.report, line.at, resource)

    def write(self, source: Mapping[str, Any]) -> None:
        """Write every changed file; *source* is the section about the source.

        :raises OSError: a file cannot be written; the next call retries.
        """
        for root, page in self._statuses.items():
            if page.dirty:
                replace(self.path(root), self._text(root, page, source))
                page.dirty = False

    def path(self, root: AgentRoot) -> str:
        """Return the path of the file of *root*."""
        return f"{self._prefix}.{root.host}.{root.service}.json"

    def _record_heartbeat(self, beat: Heartbeat) -> None:
        agent = beat.agent
        self._agents.setdefault(agent.host, {})[agent.binary] = {
            "agent_type": agent.agent_type,
            "heartbeat_at": now(),
            "configurations": agent.configurations.content(),
            "counts": dict(beat.counts),
        }
        for root, page in self._statuses.items():
            if root.host == agent.host:
                page.dirty = True

    def _text(self, root: AgentRoot, page: ServiceStatus, source: Mapping[str, Any]) -> str:
        head = {
            "format": FORMAT,
            "host": root.host,
            "service": root.service.value,
            "written_at": now(),
            "source": source,
            "agents": self._agents.get(root.host, {}),
        }
        return "".join(_pieces(json.dumps(head, indent=2), page))


def _pieces(head: str, page: ServiceStatus) -> Iterator[str]:
    yield head.removesuffix("\n}")
    yield ',\n  "resources": ['
    yield ",".join(f"\n    {line.text}" for line in page.lines.values())
    yield "\n  ]\n}\n"


def _is_current(report: StatusReport | RoleReport, resource: Resource, serves: Serves) -> bool:
    is_void = isinstance(report, RoleReport) and not has_role(resource)
    return not is_void and serves(AgentRoot(report.service, report.host), report.ref)


def _line(report: StatusReport | RoleReport, at: str, resource: Resource) -> StatusEntry:
    body: dict[str, Any] = {
        "kind": report.ref.kind.value,
        "id": str(report.ref.id),
        "name": getattr(resource, "name", ""),
    }
    if isinstance(report, StatusReport):
        body |= {"status": report.status.value, "reason": report.reason}
    else:
        body |= {"role": report.role.value}
    body |= {"revision": report.revision, "wanted_revision": resource.revision, "at": at}
    return StatusEntry(report, at, resource.revision, json.dumps(body))


def now() -> str:
    """Return the current time in the format of the API."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def replace(path: str, text: str) -> None:
    """Replace the file at *path* by *text*, atomically.

    :raises OSError: it cannot be written.
    """
    directory, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{name[:64]}.", dir=directory or ".")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), MODE)
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
