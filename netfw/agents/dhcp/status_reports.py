"""Statuses: which ports can get their addresses, as the source is told.  Pure."""

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
    """Says of each port what is new since it was last said."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._faults: dict[PortId, str] = {}
        """Of ports that were tried: why they are not served; empty: they are."""
        self._said: dict[PortId, StatusReport] = {}
        self._unsaid: set[PortId] = set()

    def settle(self, settled: JobResults) -> None:
        """Note what became of ports."""
        faults: dict[PortKey, str] = {
            **{key: "" for key in settled.done if isinstance(key, PortKey)},
            **{key: str(why) for key, why in settled.failed.items() if isinstance(key, PortKey)},
            **{
                key: f"it waits: {why}"
                for key, why in settled.waiting.items()
                if isinstance(key, PortKey)
            },
        }
        self._faults |= {key.port: fault for key, fault in faults.items()}
        self.touch(key.port for key in faults)

    def touch(self, ports: Iterable[PortId]) -> None:
        """Something about these is new, if only their revision."""
        self._unsaid.update(ports)

    def say_again(self) -> None:
        """Forget what was said."""
        self._unsaid.update(self._faults)
        self._said.clear()

    def take(
        self, desired: Desired, is_open: Callable[[PortKey], bool]
    ) -> tuple[StatusReport, ...]:
        """What is to be said; nothing of ports that are yet to be tried as they are now."""
        reports = []
        for id in sorted(id for id in self._unsaid if not is_open(PortKey(id))):
            self._unsaid.discard(id)
            port = desired.port(id) if id in desired.ports else None
            if port is None or id not in self._faults:
                self._faults.pop(id, None)
                self._said.pop(id, None)
                continue
            report = self._report(port)
            if self._said.get(id) != report:
                self._said[id] = report
                reports.append(report)
        return tuple(reports)

    def _report(self, port: Port) -> StatusReport:
        fault = self._faults[port.id]
        return StatusReport(
            ref=ref(port),
            revision=port.revision,
            host=self._host,
            service=Service.DHCP,
            status=Status.DEGRADED if fault else Status.ACTIVE,
            reason=fault,
        )
