"""Validation of an update, by key, before a firewall of Linux bridges renders it.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from netfw.drivers.firewall import FirewallKey, FirewallValue, Member
from netfw.drivers.support.firewall_validation import validation_error
from netfw.drivers.values.keys import GroupKey
from netfw.errors import NetfwError, NotSupported
from netfw.plan import Update

Put = Callable[[FirewallKey, FirewallValue], None]


def collect_refusals(
    update: Update[FirewallKey, FirewallValue], put: Put
) -> dict[FirewallKey, NetfwError]:
    """Pass each valid key and value to *put*; return the errors of the others and of *put*."""
    refused: dict[FirewallKey, NetfwError] = {}
    for key, value in update.put.items():
        error: NetfwError | None = validation_error(key, value)
        try:
            if error is None:
                put(key, value)
        except NetfwError as exc:
            error = exc
        if error is not None:
            refused[key] = error
    return refused


def mac_member_error(member: Member) -> NotSupported | None:
    """Return the error of a member with a MAC address that rules could not match, or ``None``."""
    if member.mac is None or (not member.prefix.prefixlen and isinstance(member.group, GroupKey)):
        return None
    return NotSupported(
        f"{member}: a member is known by its MAC address only when it may have every address"
    )
