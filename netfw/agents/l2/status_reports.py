"""Status reports of ports: whether they are wired.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set

from attrs import frozen

from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.drivers.values.switch_values import Admission
from netfw.model.binding import VifType
from netfw.model.port import Port
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import is_distributed
from netfw.model.values.ids import PortId
from netfw.plan import Outcome

NOT_ON_SWITCHES = frozenset({VifType.HW_VEB.value, VifType.HOSTDEV_PHYSICAL.value})
"""How ports are plugged that are functions of network cards."""


@frozen
class PortResult:
    """The result of wiring a port."""

    status: Status
    reason: str = ""


class L2StatusReporter:
    """Keeps the status of each port, and returns the reports that changed."""

    def __init__(self) -> None:
        self._results: dict[PortId, PortResult] = {}
        self._sent: dict[PortId, StatusReport] = {}
        self._unsent: set[PortId] = set()

    def record(self, outcome: Outcome[PortKey], admissions: dict[PortKey, Admission]) -> None:
        """Record the outcome of ports that were wired with *admissions*."""
        for key in outcome.done:
            if key in admissions:
                live = admissions[key] is Admission.LIVE
                self._results[key.port] = PortResult(Status.ACTIVE if live else Status.DOWN)
            else:
                self._results.pop(key.port, None)
        for key, error in outcome.failed.items():
            self._results[key.port] = PortResult(Status.DEGRADED, str(error))
        for key, reason in outcome.waiting.items():
            self._results[key.port] = PortResult(Status.DOWN, reason)
        self.touch(key.port for key in (*outcome.done, *outcome.failed, *outcome.waiting))

    def touch(self, ports: Iterable[PortId]) -> None:
        """Have the reports of *ports* made again."""
        self._unsent.update(ports)

    def resend(self, ports: Iterable[PortId]) -> None:
        """Have `take` return the reports of *ports* once more."""
        self._sent.clear()
        self.touch(ports)

    def take(self, desired: DesiredSwitch, pending: frozenset[PortId]) -> tuple[StatusReport, ...]:
        """Return the new reports; none of *pending* ports, which have no result yet."""
        return self._take(desired, self._unsent - pending)

    def take_unplugged(self, desired: DesiredSwitch) -> tuple[StatusReport, ...]:
        """Return the new reports of ports that have no device: they are down, whatever follows."""
        return self._take(desired, {id for id in self._unsent if desired.device(id) is None})

    def _take(self, desired: DesiredSwitch, ready: Set[PortId]) -> tuple[StatusReport, ...]:
        reports = []
        self._unsent -= ready
        for id in sorted(ready):
            report = self._report(id, desired)
            if report is None:
                self._sent.pop(id, None)
            elif self._sent.get(id) != report:
                self._sent[id] = report
                reports.append(report)
        return tuple(reports)

    def _report(self, id: PortId, desired: DesiredSwitch) -> StatusReport | None:
        port = desired.reported_port(id)
        if port is None:
            return self._readiness(id, desired)
        if port.binding.vif_type in NOT_ON_SWITCHES and desired.device(id) is None:
            return None  # the agent of the network card reports it
        result = self._result(id, desired)
        is_absent = desired.device(id) is None and id not in self._sent
        if result is None or (is_absent and is_distributed(port.device_owner)):
            return None  # other hosts have the interface of a distributed router, too
        return _make_report(port, result, desired)

    def _readiness(self, id: PortId, desired: DesiredSwitch) -> StatusReport | None:
        """Return the report that this host is ready for the activation of a port: the device is
        there, and dead; ``None``: it is not."""
        port = desired.prepared_port(id)
        if port is None or self._results.get(id) != PortResult(Status.DOWN):
            return None
        return _make_report(port, PortResult(Status.ACTIVE), desired)

    def _result(self, id: PortId, desired: DesiredSwitch) -> PortResult | None:
        device, decision = desired.device(id), desired.decision(id)
        if decision is None and (device is None or desired.subport(id) is not None):
            return PortResult(Status.DOWN, _absence(id, desired))
        if device is not None and device.ancillary:
            return PortResult(Status.ACTIVE)
        result = self._results.get(id)
        if result is not None and result.status is Status.DOWN and decision is not None:
            return PortResult(Status.DOWN, result.reason or decision.reason)
        return result


def _absence(id: PortId, desired: DesiredSwitch) -> str:
    """Return why a port has no device."""
    if desired.subport(id) is not None:
        return "its parent port is not plugged on this host"
    return "it is not plugged on this host"


def _make_report(port: Port, result: PortResult, desired: DesiredSwitch) -> StatusReport:
    return StatusReport(
        ref=ref(port),
        revision=port.revision,
        host=desired.view.host,
        service=Service.L2,
        status=result.status,
        reason=result.reason,
    )
