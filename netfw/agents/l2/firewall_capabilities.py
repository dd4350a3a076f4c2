"""What of the wanted filters a firewall driver can have.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.keys import AddressGroupKey
from netfw.errors import NetfwError, NotSupported


@frozen
class SupportedPolicy:
    """What to ask a driver for, and which groups it enforces in part or not at all.

    What it cannot enforce allows nothing: less passes than is wanted, never more.
    """

    values: Mapping[FirewallKey, FirewallValue] = field(factory=dict)
    refused: Mapping[FirewallKey, NetfwError] = field(factory=dict)


def restrict_to_capabilities(
    keys: Iterable[FirewallKey],
    wanted: Mapping[FirewallKey, FirewallValue],
    firewall: DriverInfo[Capability],
) -> SupportedPolicy:
    """What *firewall* can have of *keys*, by the capabilities that it declares."""
    values: dict[FirewallKey, FirewallValue] = {}
    refused: dict[FirewallKey, NetfwError] = {}
    for key in keys:
        if key in wanted:
            value, reason = _possible(wanted[key], firewall)
            if value is not None:
                values[key] = value
            if reason:
                refused[key] = NotSupported(f"the firewall driver {firewall.name!r} {reason}")
    return SupportedPolicy(values, refused)


def _possible(
    value: FirewallValue, firewall: DriverInfo[Capability]
) -> tuple[FirewallValue | None, str]:
    """What is left of *value*, and why not all of it."""
    can = firewall.capabilities
    if FirewallCapability.FILTERING not in can:
        return value, ""  # it enforces nothing, and says so
    if (
        isinstance(value, Rules)
        and not value.stateful
        and FirewallCapability.STATELESS_GROUPS not in can
    ):
        return None, (
            "has no stateless groups, so this one allows nothing: make it stateful, or choose "
            "another firewall_driver"
        )
    if FirewallCapability.ADDRESS_GROUPS in can:
        return value, ""
    if isinstance(value, Member) and isinstance(value.group, AddressGroupKey):
        return None, ""
    if isinstance(value, Rules):
        rules = frozenset(rule for rule in value.rules if rule.remote_address_group_id is None)
        if lost := len(value.rules) - len(rules):
            return evolve(value, rules=rules), (
                f"has no address groups, so {lost} of its rules allow nothing: name prefixes in "
                "them, or choose another firewall_driver"
            )
    return value, ""
