"""What the firewall in the switch can not take, and why.  Pure.

Values check themselves when they are made.  Whoever got past that, by mistake or on purpose, does
not get past this: what is not exactly what it should be is named, and never made a flow of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network
from uuid import UUID

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, Member, Rules
from netfw.drivers.keys import AddressGroupKey, GroupKey, PortKey
from netfw.drivers.source import Source
from netfw.errors import InvalidInput
from netfw.model.address import Mac, unscoped
from netfw.model.device import check_device_name
from netfw.model.protocol import NAMES
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw_drivers.ovs.firewall_matches import MATCHED_PORTS

Fault = tuple[str, str]
"""Where, and what is wrong there."""


def refusal(key: object, value: object) -> InvalidInput | None:
    """Why *value* can not be had under *key*; ``None``: it can."""
    faults = dict(_faults(key, value))
    return InvalidInput(faults) if faults else None


def _faults(key: object, value: object) -> Iterator[Fault]:
    match key, value:
        case PortKey(id), FilteredPort():
            yield from _id_faults("port", id)
            yield from _port_faults(value)
        case GroupKey(id), Rules():
            yield from _id_faults("group", id)
            for rule in value.rules:
                yield from _rule_faults(rule)
        case Member(), Member():
            yield from _member_faults(value)
            if key != value:
                yield "member", "a member is its own value"
        case _:
            yield "value", f"{type(value).__name__} is no value for {type(key).__name__}"


def _port_faults(port: FilteredPort) -> Iterator[Fault]:
    try:
        check_device_name(port.device)
    except (ValueError, TypeError) as error:
        yield "device", str(error)
    for group in port.groups:
        yield from _id_faults("groups", group)
    sources: Iterable[object] = port.sources
    for source in sources:
        if isinstance(source, Source):
            yield from _mac_faults("sources", source.mac)
            yield from _prefix_faults("sources", source.prefix)
        else:
            yield "sources", f"{source!r} is not a source"


def _rule_faults(rule: object) -> Iterator[Fault]:
    if not isinstance(rule, SecurityGroupRule):
        yield "rules", f"{rule!r} is not a rule"
        return
    where = f"rule {rule.id}"
    try:
        evolve(rule)  # it looks at itself again
    except (ValueError, TypeError) as error:
        yield where, str(error)
        return
    for remote in (rule.remote_group_id, rule.remote_address_group_id):
        if remote is not None:
            yield from _id_faults(where, remote)
    if rule.remote_prefix is not None:
        yield from _prefix_faults(where, rule.remote_prefix)
    kinds = isinstance(rule.direction, Direction), isinstance(rule.ethertype, Ethertype)
    if not all(kinds):
        yield where, f"{rule.direction!r} and {rule.ethertype!r} are no direction and family"
    elif rule.ports is not None and rule.protocol not in MATCHED_PORTS:
        name = NAMES.get(rule.protocol or 0, str(rule.protocol))
        yield where, f"the switch does not know the ports of {name}: leave them out"


def _member_faults(member: Member) -> Iterator[Fault]:
    group: object = member.group
    if isinstance(group, (GroupKey, AddressGroupKey)):
        yield from _id_faults("group", group.group)
    else:
        yield "group", f"{group!r} is no group"
    yield from _prefix_faults("prefix", member.prefix)
    if member.mac is not None:
        yield from _mac_faults("mac", member.mac)


def _id_faults(field: str, id: object) -> Iterator[Fault]:
    if not isinstance(id, UUID):
        yield field, f"{id!r} is not an id"


def _mac_faults(field: str, mac: object) -> Iterator[Fault]:
    try:
        right = isinstance(mac, str) and Mac(str(mac)) == mac
    except ValueError:
        right = False
    if not right:
        yield field, f"{mac!r} is not a MAC address as netfw writes it"


def _prefix_faults(field: str, prefix: object) -> Iterator[Fault]:
    if not isinstance(prefix, (IPv4Network, IPv6Network)):
        yield field, f"{prefix!r} is not a prefix"
        return
    try:
        unscoped(prefix)
    except ValueError as error:
        yield field, str(error)
