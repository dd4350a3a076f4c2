"""Capabilities that the rules of a security group need of a firewall driver.  Pure.

The server refuses a rule by the same function as agents and drivers leave it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.base import Capability
from netfw.drivers.firewall import FirewallCapability, Rules
from netfw.errors import PartlyInvalid
from netfw.model.security_group import SecurityGroupRule, TrafficMatch
from netfw.model.values.protocol import DCCP, UDPLITE

PORT_CAPABILITIES: Mapping[int, FirewallCapability] = {
    DCCP: FirewallCapability.DCCP_PORTS,
    UDPLITE: FirewallCapability.UDPLITE_PORTS,
}
"""Protocols whose ports not every firewall can match."""

_NAMED = 10
"""Rules that an error names."""
_ADVICE: Mapping[FirewallCapability, str] = {
    FirewallCapability.ADDRESS_GROUPS: "the firewall has no address groups: name a prefix instead",
    FirewallCapability.DCCP_PORTS: "the firewall cannot match ports of dccp: leave them out",
    FirewallCapability.UDPLITE_PORTS: "the firewall cannot match ports of udplite: leave them out",
}


def required_capabilities(rule: TrafficMatch) -> Iterator[FirewallCapability]:
    """Yield the capabilities beyond ``FILTERING`` that *rule* needs."""
    if rule.remote_address_group_id is not None:
        yield FirewallCapability.ADDRESS_GROUPS
    ports = PORT_CAPABILITIES.get(rule.protocol or 0)
    if ports is not None and rule.ports is not None:
        yield ports


def unsupported_reason(rule: SecurityGroupRule, capabilities: Collection[Capability]) -> str | None:
    """Return what a firewall with *capabilities* lacks for *rule*, and the remedy, or ``None``."""
    missing = (each for each in required_capabilities(rule) if each not in capabilities)
    return next((_ADVICE[each] for each in missing), None)


@frozen
class SupportedRules:
    """The rules of a group that a firewall can enforce, and those that are left out."""

    rules: Rules
    left_out: Mapping[str, str] = field(factory=dict)
    """By rule, what the firewall lacks for it."""


def restrict_rules(group: Rules, capabilities: Collection[Capability]) -> SupportedRules:
    """Leave out the rules of *group* for which a firewall with *capabilities* lacks something."""
    checked = [(rule, unsupported_reason(rule, capabilities)) for rule in group.rules]
    left_out = {f"rule {rule.id}": why for rule, why in checked if why is not None}
    if not left_out:
        return SupportedRules(group)
    rules = frozenset(rule for rule, why in checked if why is None)
    return SupportedRules(evolve(group, rules=rules), left_out)


def left_out_error(left_out: Mapping[str, str]) -> PartlyInvalid:
    """Return the error of a group that is in force without some rules; it names the first ones."""
    named = dict(sorted(left_out.items())[:_NAMED])
    if more := len(left_out) - len(named):
        named["rules"] = f"{more} more are left out for such reasons"
    return PartlyInvalid(named)
