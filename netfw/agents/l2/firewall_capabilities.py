"""Restriction of the desired filters to the capabilities of the firewall driver.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.keys import AddressGroupKey
from netfw.errors import NetfwError, NotSupported


@frozen
class SupportedPolicy:
    """The values for a driver, and the groups that it enforces in part or not at all.

    An unsupported rule allows nothing: less traffic passes than desired, never more.
    """

    values: Mapping[FirewallKey, FirewallValue] = field(factory=dict)
    refused: Mapping[FirewallKey, NetfwError] = field(factory=dict)


def restrict_to_capabilities(
    keys: Iterable[FirewallKey],
    desired: Mapping[FirewallKey, FirewallValue],
    firewall: DriverInfo[Capability],
) -> SupportedPolicy:
    """Return the values of *keys* that *firewall* supports, by its capabilities."""
    values: dict[FirewallKey, FirewallValue] = {}
    refused: dict[FirewallKey, NetfwError] = {}
    for key in keys:
        if key in desired:
            value, reason = _restrict(desired[key], firewall)
            if value is not None:
                values[key] = value
            if reason:
                refused[key] = NotSupported(f"the firewall driver {firewall.name!r} {reason}")
    return SupportedPolicy(values, refused)


def _restrict(
    value: FirewallValue, firewall: DriverInfo[Capability]
) -> tuple[FirewallValue | None, str]:
    """Return the supported part of *value*, and why it is not all."""
    capabilities = firewall.capabilities
    if FirewallCapability.FILTERING not in capabilities:
        return value, ""  # a driver without filtering accepts everything
    if (
        isinstance(value, Rules)
        and not value.stateful
        and FirewallCapability.STATELESS_GROUPS not in capabilities
    ):
        return None, (
            "has no stateless groups, so this one allows nothing: make it stateful, or choose "
            "another firewall_driver"
        )
    if FirewallCapability.ADDRESS_GROUPS in capabilities:
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
