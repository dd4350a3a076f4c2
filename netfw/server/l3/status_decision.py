"""Statuses of routers and floating IPs, decided from the reports of hosts.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from netfw.model.values.common_fields import Status

PRECEDENCE = (Status.ACTIVE, Status.DEGRADED, Status.ERROR, Status.DOWN)
"""The first of these that a live host reports is the status."""


def decide_router_status(
    hosts: Set[str], dead: Set[str], reports: Mapping[str, Status], *, needs_host: bool
) -> Status:
    """Return the status of a router by the *reports* of the *hosts* that serve it.

    A router is in BUILD until the first report. Without a host it is DOWN if it needs one. Of a
    distributed router, *hosts* are those of its central part.
    """
    if not hosts:
        return Status.DOWN if needs_host else Status.ACTIVE
    waiting = Status.DOWN if hosts <= dead else Status.BUILD
    return _reported_status(hosts - dead, reports) or waiting


def decide_floating_ip_status(
    hosts: Set[str], dead: Set[str], reports: Mapping[str, Status]
) -> Status:
    """Return the status of a floating IP by the *reports* of the *hosts* that serve it.

    DEGRADED is DOWN: clients know three statuses of a floating IP.
    """
    status = _reported_status(hosts - dead, reports)
    return Status.DOWN if status in (None, Status.DEGRADED) else status


def _reported_status(hosts: Iterable[str], reports: Mapping[str, Status]) -> Status | None:
    reported = {reports[host] for host in hosts if host in reports}
    return next((status for status in PRECEDENCE if status in reported), None)
