"""Statuses of routers and floating IPs, decided from the reports of hosts.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from netfw.model.common_fields import Status

PRECEDENCE = (Status.ACTIVE, Status.DEGRADED, Status.ERROR, Status.DOWN)
"""The first of these that a live host reports is the status."""


def decide_router_status(
    hosts: Set[str], dead: Set[str], reports: Mapping[str, Status], *, has_ports: bool
) -> Status:
    """Return the status of a router by the *reports* of the *hosts* that serve it.

    A router is in BUILD until the first report. Without a host it is DOWN, unless it has no ports
    either, so that no host is needed yet.
    """
    if not hosts:
        return Status.DOWN if has_ports else Status.ACTIVE
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
