"""Status reports of ports: whether DHCP serves them.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from netfw.agents.dhcp.desired import Desired
from netfw.agents.dhcp.job_tracker import JobResults
from netfw.drivers.keys import PortKey
from netfw.drivers.reports import StatusReport
from netfw.drivers.subscription import Service
from netfw.model.common_fields import Status
from netfw.model.ids import PortId
from netfw.model.port import Port
from netfw.model.resource import ref


class DhcpStatusReporter:
    """Keeps the status of each port, and returns the reports that changed."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._problems: dict[PortId, str] = {}
        """Ports that were tried, with the reason why they are not served; empty: they are."""
        self._sent: dict[PortId, StatusReport] = {}
        self._unsent: set[PortId] = set()

    def record(self, results: JobResults) -> None:
        """Record the results of ports."""
        problems: dict[PortKey, str] = {
            **{key: "" for key in results.done if isinstance(key, PortKey)},
            **{key: str(why) for key, why in results.failed.items() if isinstance(key, PortKey)},
            **{
                key: f"it waits: {why}"
                for key, why in results.waiting.items()
                if isinstance(key, PortKey)
            },
        }
        self._problems |= {key.port: problem for key, problem in problems.items()}
        self.touch(key.port for key in problems)

    def touch(self, ports: Iterable[PortId]) -> None:
        """Have the reports of *ports* made again: something changed, if only the revision."""
        self._unsent.update(ports)

    def resend(self) -> None:
        """Have `take` return every report once more."""
        self._unsent.update(self._problems)
        self._sent.clear()

    def take(
        self, desired: Desired, is_pending: Callable[[PortKey], bool]
    ) -> tuple[StatusReport, ...]:
        """Return the new reports; none of ports that are still pending as they are now."""
        reports = []
        for id in sorted(id for id in self._unsent if not is_pending(PortKey(id))):
            self._unsent.discard(id)
            port = desired.port(id) if id in desired.ports else None
            if port is None or id not in self._problems:
                self._problems.pop(id, None)
                self._sent.pop(id, None)
                continue
            report = self._report(port)
            if self._sent.get(id) != report:
                self._sent[id] = report
                reports.append(report)
        return tuple(reports)

    def _report(self, port: Port) -> StatusReport:
        problem = self._problems[port.id]
        return StatusReport(
            ref=ref(port),
            revision=port.revision,
            host=self._host,
            service=Service.DHCP,
            status=Status.DEGRADED if problem else Status.ACTIVE,
            reason=problem,
        )
