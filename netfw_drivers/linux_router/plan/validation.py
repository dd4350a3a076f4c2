"""Entries that the driver refuses.  Pure."""

from __future__ import annotations

from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.keys import AgentGatewayKey
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RouterDriverEntry,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterState,
)
from netfw.errors import NetfwError, NotSupported


def value_error(key: RouterDriverKey, value: RouterDriverValue) -> NetfwError | None:
    """Return why the driver cannot have *value* at all; None if it can."""
    wrong = entry_error(RouterDriverEntry, key, value)
    if wrong is not None:
        return wrong
    if isinstance(key, AgentGatewayKey):
        return NotSupported(f"{key}: this driver has no distributed routers")
    if isinstance(value, FloatingIpNat) and value.part is RouterPart.LOCAL:
        return NotSupported(f"{key}: this driver has no local floating IPs")
    return _router_error(key, value) if isinstance(value, RouterState) else None


def _router_error(key: RouterDriverKey, state: RouterState) -> NetfwError | None:
    limited = [each.owner for each in state.contributions if each.qos]
    if limited:
        return NotSupported(f"{key}: QoS rules (of {', '.join(limited)}) have no effect here")
    return None
