"""Entries that the driver refuses.  Pure."""

from __future__ import annotations

from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RouterDriverEntry,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterState,
)
from netfw.errors import NetfwError, NotSupported
from netfw_drivers.linux_router.plan.bandwidth_limits import unsupported_rules


def value_error(key: RouterDriverKey, value: RouterDriverValue) -> NetfwError | None:
    """Return why the driver cannot have *value* at all; None if it can."""
    wrong = entry_error(RouterDriverEntry, key, value)
    if wrong is not None:
        return wrong
    if isinstance(value, FloatingIpNat):
        is_local = value.part is RouterPart.LOCAL
        if is_local and value.floating_address.version == 6:
            return NotSupported(f"{key}: floating IPs of local parts are IPv4")
    return _router_error(key, value) if isinstance(value, RouterState) else None


def _router_error(key: RouterDriverKey, state: RouterState) -> NetfwError | None:
    for rule in unsupported_rules(state.contributions):
        return NotSupported(f"{key}: {type(rule).__name__} is no QoS rule of addresses")
    return None
