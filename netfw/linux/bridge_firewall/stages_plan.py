"""Stages of a plan beside those of the rules.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netfw.linux.bridge_firewall.denied_connections import FlushConnections
from netfw.linux.ip.operations import SetSysctl
from netfw.model.values.ids import PortId
from netfw.plan import Operation, Stage

SYSCTL_BACKEND, CONNECTIONS_BACKEND = "sysctl", "conntrack"


def sysctl_stages(disabled: Iterable[str], *, filters: bool) -> Iterator[Stage]:
    """Turn the sysctls on that filtering needs; without filtering they stay as they are."""
    for name in disabled if filters else ():
        yield Stage([Operation(SYSCTL_BACKEND, f"{name}=1", frozenset(), SetSysctl(name, "1"))])


def flush_stages(ports: frozenset[PortId], zones: Iterable[int]) -> Iterator[Stage]:
    """Remove the connections that *ports* no longer allow, and all of *zones*.

    Zones are flushed when they are gone, and before a network gets their number: rules that
    were lost, or a process that was killed, left connections of another network in them.
    """
    flush = FlushConnections(ports, frozenset(zones))
    if flush.ports or flush.zones:
        yield Stage([Operation(CONNECTIONS_BACKEND, flush.__str__, frozenset(), flush)])
