"""What a firewall of Linux bridges reads and sets on the host beside its rules."""

from __future__ import annotations

import logging
from contextlib import suppress

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue
from netfw.errors import InvalidInput
from netfw.linux.bridge_firewall.denied_connections import (
    DenialFinder,
    DeniedConnections,
    FlushConnections,
)
from netfw.linux.bridge_firewall.values import Locate, check_device
from netfw.linux.conntrack import Conntrack
from netfw.linux.ip import sysctl
from netfw.linux.ip.bridge_ports import read_bridge_masters
from netfw.linux.ip.operations import SetSysctl
from netfw.linux.netns import Namespace
from netfw.plan import Update

LOG = logging.getLogger(__name__)

BRIDGE_SYSCTLS = ("net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables")
"""Sysctls that make the kernel pass bridged frames to the hooks of IPv4 and IPv6."""

_READ_ALL_FROM = 16
"""Number of devices from which reading all of them is cheaper."""


def read_bridges(
    scope: Update[FirewallKey, FirewallValue] | None, locate: Locate, namespace: Namespace
) -> dict[str, str | None]:
    """Return the devices that concern *scope*, each with its bridge."""
    wanted: set[str] = set()
    for value in scope.put.values() if scope is not None else ():
        if isinstance(value, FilteredPort):
            with suppress(InvalidInput):
                wanted.add(check_device(locate(check_device(value.device))))
    if scope is not None and not wanted:
        return {}
    few = scope is not None and len(wanted) < _READ_ALL_FROM
    return read_bridge_masters(wanted if few else None, namespace)


def read_disabled_sysctls(namespace: Namespace) -> tuple[str, ...]:
    """Return the sysctls that are off."""
    found = sysctl.read_many(BRIDGE_SYSCTLS, namespace)
    return tuple(name for name in BRIDGE_SYSCTLS if found.get(name, "1") != "1")


def read_missing_sysctls(namespace: Namespace) -> tuple[str, ...]:
    """Return the sysctls that this kernel lacks, as br_netfilter is not loaded."""
    found = sysctl.read_many(BRIDGE_SYSCTLS, namespace)
    return tuple(name for name in BRIDGE_SYSCTLS if name not in found)


def enable_sysctl(switch: SetSysctl, namespace: Namespace) -> None:
    """Turn a sysctl on, and log it."""
    sysctl.write(switch.name, switch.value, namespace)
    LOG.warning("%s was off: turned on, so that ports of bridges are filtered", switch.name)


def flush_connections(flush: FlushConnections, finder: DenialFinder, namespace: Namespace) -> None:
    """Remove the connections that the installed rules deny, and those of the named zones."""
    denied = finder.denied(flush.ports)
    with Conntrack(namespace) as conntrack:
        ended = conntrack.remove(
            DeniedConnections(is_denied=lambda c: c.zone in flush.zones or denied(c))
        )
    LOG.debug("conntrack: removed %d connections", ended)
