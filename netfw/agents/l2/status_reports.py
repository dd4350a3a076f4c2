"""Statuses: what to tell the source of each port.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.drivers.keys import PortKey
from netfw.drivers.reports import StatusReport
from netfw.drivers.subscription import Service
from netfw.drivers.switch_values import Admission
from netfw.model.common_fields import Status
from netfw.model.ids import PortId
from netfw.model.port import Port
from netfw.model.resource import ref
from netfw.plan import Outcome


@frozen
class PortResult:
    """What became of a port's wiring."""

    status: Status
    reason: str = ""


class L2StatusReporter:
    """Says of each port what is new since it was last said."""

    def __init__(self) -> None:
        self._fates: dict[PortId, PortResult] = {}
        self._said: dict[PortId, StatusReport] = {}
        self._unsaid: set[PortId] = set()

    def settle(self, outcome: Outcome[PortKey], admissions: dict[PortKey, Admission]) -> None:
        """Note what became of ports that were wired so."""
        for key in outcome.done:
            if key in admissions:
                live = admissions[key] is Admission.LIVE
                self._fates[key.port] = PortResult(Status.ACTIVE if live else Status.DOWN)
            else:
                self._fates.pop(key.port, None)
        for key, error in outcome.failed.items():
            self._fates[key.port] = PortResult(Status.DEGRADED, str(error))
        for key, reason in outcome.waiting.items():
            self._fates[key.port] = PortResult(Status.DOWN, reason)
        self.touch(key.port for key in (*outcome.done, *outcome.failed, *outcome.waiting))

    def touch(self, ports: Iterable[PortId]) -> None:
        """Something about these is new."""
        self._unsaid.update(ports)

    def say_again(self, ports: Iterable[PortId]) -> None:
        """Forget what was said."""
        self._said.clear()
        self.touch(ports)

    def take(
        self, desired: DesiredSwitch, unsettled: frozenset[PortId]
    ) -> tuple[StatusReport, ...]:
        """What is to be said.  Of *unsettled* ports nothing is known yet at their revision."""
        reports = []
        ready = self._unsaid - unsettled
        self._unsaid -= ready
        for id in sorted(ready):
            port = desired.port(id)
            report = None if port is None else self._report(port, desired)
            if report is None:
                self._said.pop(id, None)
            elif self._said.get(id) != report:
                self._said[id] = report
                reports.append(report)
        return tuple(reports)

    def _report(self, port: Port, desired: DesiredSwitch) -> StatusReport | None:
        fate = self._fate(port.id, desired)
        if fate is None:
            return None
        return StatusReport(
            ref=ref(port),
            revision=port.revision,
            host=desired.view.host,
            service=Service.L2,
            status=fate.status,
            reason=fate.reason,
        )

    def _fate(self, id: PortId, desired: DesiredSwitch) -> PortResult | None:
        device, decision = desired.device(id), desired.decision(id)
        if device is None:
            return PortResult(Status.DOWN, "it is not plugged on this host")
        if device.ancillary:
            return PortResult(Status.ACTIVE)
        fate = self._fates.get(id)
        if fate is not None and fate.status is Status.DOWN and decision is not None:
            return PortResult(Status.DOWN, fate.reason or decision.reason)
        return fate
