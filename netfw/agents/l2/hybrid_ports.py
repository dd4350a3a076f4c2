"""Ports with a hybrid plug on a host whose firewall filters in the switch.  Pure.

Such a port was plugged for a former firewall driver, which keeps filtering it at its Linux bridge
until it is plugged anew: its connections stay, and at no moment is it unfiltered.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import (
    HYBRID_DEVICE_PREFIX,
    FilteredPort,
    FirewallCapability,
    FirewallKey,
    FirewallValue,
)
from netfw.errors import ConfigError
from netfw.plan import Update

FirewallUpdate = Update[FirewallKey, FirewallValue]


def has_hybrid_plug(device: str) -> bool:
    """Return whether *device* on the switch leads to a Linux bridge of the port's own."""
    return device.startswith(HYBRID_DEVICE_PREFIX)


def select_for_switch(update: FirewallUpdate) -> FirewallUpdate:
    """Return *update* for the firewall in the switch, which lets hybrid plugs pass unfiltered."""
    hybrid = dict(_hybrid_ports(update))
    passed = {key: evolve(port, trusted=True) for key, port in hybrid.items()}
    return evolve(update, put={**update.put, **passed})


def select_for_bridges(update: FirewallUpdate) -> FirewallUpdate:
    """Return *update* for the firewall on Linux bridges: without ports that have none."""
    hybrid = {key for key, _ in _hybrid_ports(update)}
    others = frozenset(
        key
        for key, value in update.put.items()
        if isinstance(value, FilteredPort) and key not in hybrid
    )
    put = {key: value for key, value in update.put.items() if key not in others}
    return evolve(update, put=put, drop=update.drop | others)


def _hybrid_ports(update: FirewallUpdate) -> Iterator[tuple[FirewallKey, FilteredPort]]:
    for key, value in update.put.items():
        if isinstance(value, FilteredPort) and has_hybrid_plug(value.device):
            yield key, value


def validate_hybrid_firewall(
    firewall: DriverInfo[Capability] | None, hybrid: DriverInfo[Capability] | None
) -> None:
    """Validate that *hybrid* can filter the hybrid plugs of a host with *firewall*.

    :raises ConfigError: a sentence that says what to change.
    """
    if hybrid is None:
        return
    if FirewallCapability.HYBRID_PLUG not in hybrid.capabilities:
        raise ConfigError(
            f"hybrid_firewall_driver: {hybrid.name!r} does not filter at hybrid plugs: name the "
            "driver that the ports were plugged for, such as iptables_hybrid"
        )
    if firewall is None or FirewallCapability.IN_SWITCH not in firewall.capabilities:
        raise ConfigError(
            "hybrid_firewall_driver is for ports that move to a firewall driver in the switch: set "
            "firewall_driver = openflow, or remove hybrid_firewall_driver"
        )
