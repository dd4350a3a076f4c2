"""Restriction of the desired filters to the capabilities of the firewall driver.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.support.firewall_capabilities import left_out_error, restrict_rules
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
            value, error = _restrict(desired[key], firewall)
            if value is not None:
                values[key] = value
            if error is not None:
                refused[key] = error
    return SupportedPolicy(values, refused)


def _restrict(
    value: FirewallValue, firewall: DriverInfo[Capability]
) -> tuple[FirewallValue | None, NetfwError | None]:
    """Return the supported part of *value*, and why it is not all."""
    capabilities = firewall.capabilities
    if FirewallCapability.FILTERING not in capabilities:
        return value, None  # a driver without filtering accepts everything
    match value:
        case Rules(stateful=False) if FirewallCapability.STATELESS_GROUPS not in capabilities:
            return None, NotSupported(
                f"the firewall driver {firewall.name!r} has no stateless groups, so this one "
                "allows nothing: make it stateful, or choose another firewall_driver"
            )
        case Rules():
            supported = restrict_rules(value, capabilities)
            left_out = supported.left_out
            return supported.rules, left_out_error(left_out) if left_out else None
        case Member(group=AddressGroupKey()):
            is_supported = FirewallCapability.ADDRESS_GROUPS in capabilities
            return value if is_supported else None, None
    return value, None
