"""What the firewall in the switch can not take, and why.  Pure.

Values that check themselves are not checked again here; what is, is what a caller could still get
wrong, by mistake or on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.keys import AddressGroupKey, GroupKey, PortKey
from netfw.drivers.source import Source
from netfw.errors import InvalidInput
from netfw.model.address import Mac, unscoped
from netfw.model.device import check_device_name
from netfw.model.protocol import NAMES
from netfw.model.security_group import SecurityGroupRule
from netfw_drivers.ovs.firewall_matches import MATCHED_PORTS

_KINDS = {PortKey: FilteredPort, GroupKey: Rules, Member: Member}


def refusal(key: FirewallKey, value: FirewallValue) -> InvalidInput | None:
    """Why *value* can not be had under *key*; ``None``: it can."""
    faults = dict(_faults(key, value))
    return InvalidInput(faults) if faults else None


def _faults(key: object, value: object) -> Iterator[tuple[str, str]]:
    kind = _KINDS.get(type(key))
    if kind is None or not isinstance(value, kind):
        yield str(key), f"{type(value).__name__} is no value for {type(key).__name__}"
    elif isinstance(value, FilteredPort):
        yield from _port_faults(value)
    elif isinstance(value, Rules):
        for rule in value.rules:
            yield from _rule_faults(rule)
    elif isinstance(value, Member):
        yield from _member_faults(key, value)


def _port_faults(port: FilteredPort) -> Iterator[tuple[str, str]]:
    try:
        check_device_name(port.device)
    except (ValueError, TypeError) as error:
        yield "device", str(error)
    sources: frozenset[object] = frozenset(port.sources)
    for source in sources:
        if isinstance(source, Source):
            yield from _prefix_faults("sources", source.prefix)
        else:
            yield "sources", f"{source!r} is not a source"


def _rule_faults(rule: object) -> Iterator[tuple[str, str]]:
    if not isinstance(rule, SecurityGroupRule):
        yield "rules", f"{rule!r} is not a rule"
    elif rule.ports is not None and rule.protocol not in MATCHED_PORTS:
        name = NAMES.get(rule.protocol or 0, str(rule.protocol))
        yield f"rule {rule.id}", f"the switch does not know the ports of {name}: leave them out"


def _member_faults(key: object, member: Member) -> Iterator[tuple[str, str]]:
    if key != member:
        yield str(key), "a member is its own value"
    group: object = member.group
    if not isinstance(group, (GroupKey, AddressGroupKey)):
        yield "group", f"{group!r} is no group"
    yield from _prefix_faults("prefix", member.prefix)
    if member.mac is not None:
        try:
            Mac(member.mac)
        except (ValueError, AttributeError, TypeError) as error:
            yield "mac", str(error)


def _prefix_faults(field: str, prefix: object) -> Iterator[tuple[str, str]]:
    if not isinstance(prefix, (IPv4Network, IPv6Network)):
        yield field, f"{prefix!r} is not a prefix"
        return
    try:
        unscoped(prefix)
    except ValueError as error:
        yield field, str(error)
