"""Which report decides the status of a resource that several hosts have.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.values.common_fields import Status

PRECEDENCE: Final = (Status.ACTIVE, Status.DEGRADED, Status.ERROR, Status.DOWN)
"""The first of these that a host reports is the status."""


def find_deciding_report(
    resource: Resource | None, reports: Iterable[StatusReport]
) -> StatusReport | None:
    """Return the report that decides the status of *resource*; ``None``: no host decides.

    Whether a port is wired is decided by the host that uses it: a standby does not take the port
    down.  While that host is unknown, and for other resources, one host where it works is enough.
    """
    deciding = [report for report in reports if _decides(report, resource)]
    order = {status: at for at, status in enumerate(PRECEDENCE)}
    return min(deciding, key=lambda each: order.get(each.status, len(order)), default=None)


def _decides(report: StatusReport, resource: Resource | None) -> bool:
    if not isinstance(resource, Port) or report.service is not Service.L2:
        return True
    return resource.binding.host in ("", report.host)
