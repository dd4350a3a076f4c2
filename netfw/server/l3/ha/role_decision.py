"""The active host of a highly available router, decided from the roles of its hosts.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set

from netfw.model.router import HaRole


def decide_active_host(
    hosts: Set[str],
    roles: Mapping[str, HaRole],
    former: str,
    last: str | None = None,
    dead: Set[str] = frozenset(),
) -> str:
    """Return the host that the ports of a router are bound to; empty: it is unknown.

    Of several active *hosts* it is the one that reported it *last*. The roles of *dead* hosts,
    whose agents are silent, do not count otherwise. While none is active, the *former* one stays:
    it is about to be active again, or another one will report.
    """
    if last in find_active_hosts(hosts, roles):
        return str(last)
    active = sorted(find_active_hosts(hosts - dead, roles))
    if former in active or (not active and former in hosts):
        return former
    return active[0] if active else ""


def find_active_hosts(hosts: Set[str], roles: Mapping[str, HaRole]) -> Set[str]:
    """Return those of *hosts* that are active."""
    return {host for host in hosts if roles.get(host) is HaRole.ACTIVE}
