"""Validation of firewall keys and values: promise 9 of :class:`FirewallDriver`.  Pure.

Values validate themselves when they are made.  A value that bypassed this, by mistake or on
purpose, is refused here by name, and nothing of it is rendered.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from uuid import UUID

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallEntry, Member, Rules
from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.errors import InvalidInput
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.address import Mac, unscoped
from netfw.model.values.device_names import check_device_name

Problem = tuple[str, str]
"""A field and its error."""


def validation_error(key: object, value: object) -> InvalidInput | None:
    """Return the error of *value* under *key*, or ``None``."""
    return _refusal(dict([*_key_problems(key), *_problems(key, value)]))


def key_validation_error(key: object) -> InvalidInput | None:
    """Return the error of *key*, or ``None``."""
    return _refusal(dict(_key_problems(key)))


def _refusal(problems: dict[str, str]) -> InvalidInput | None:
    return InvalidInput(problems) if problems else None


def _key_problems(key: object) -> Iterator[Problem]:
    match key:
        case PortKey(id) | GroupKey(id):
            yield from _id_problems("key", id)
        case Member():
            yield from _member_problems(key)
        case _:
            yield "key", f"{key!r} is no key of a firewall"


def _problems(key: object, value: object) -> Iterator[Problem]:
    if (mismatch := entry_error(FirewallEntry, key, value)) is not None:
        yield from mismatch.problems.items()
    elif isinstance(value, FilteredPort):
        yield from _port_problems(value)
    elif isinstance(value, Rules):
        for rule in value.rules:
            yield from _rule_problems(rule)
    elif key != value:
        yield "value", "a member is its own value"


def _port_problems(port: FilteredPort) -> Iterator[Problem]:
    try:
        check_device_name(port.device)
    except (ValueError, TypeError) as error:
        yield "device", str(error)
    yield from _id_problems("network", port.network)
    yield from _mac_problems("mac", port.mac)
    for group in port.groups:
        yield from _id_problems("groups", group)
    sources: frozenset[object] = frozenset(port.sources)
    for source in sources:
        if isinstance(source, AllowedSource):
            yield from _mac_problems("sources", source.mac)
            yield from _prefix_problems("sources", source.prefix)
        else:
            yield "sources", f"{source!r} is not a source"


def _rule_problems(rule: object) -> Iterator[Problem]:
    if not isinstance(rule, SecurityGroupRule):
        yield "rules", f"{rule!r} is not a rule"
        return
    problems = list(_rule_kind_problems(rule))
    if problems:
        yield from problems
        return
    try:
        evolve(rule)  # validates it again
    except InvalidInput as error:
        yield from ((f"rule {rule.id!r}, {path}", why) for path, why in error.problems.items())
    except (ValueError, TypeError) as error:
        yield f"rule {rule.id!r}", str(error)


def _rule_kind_problems(rule: SecurityGroupRule) -> Iterator[Problem]:
    for field, kind in (("direction", Direction), ("ethertype", Ethertype)):
        if not isinstance(getattr(rule, field), kind):
            yield field, f"{getattr(rule, field)!r} is none"
    for field in ("protocol", "port_min", "port_max"):
        number = getattr(rule, field)
        if number is not None and type(number) is not int:
            yield field, f"{number!r} is not a number"
    for field in ("remote_group_id", "remote_address_group_id"):
        if (id := getattr(rule, field)) is not None:
            yield from _id_problems(field, id)
    if rule.remote_prefix is not None:
        yield from _prefix_problems("remote_prefix", rule.remote_prefix)


def _member_problems(member: Member) -> Iterator[Problem]:
    group: object = member.group
    if isinstance(group, (GroupKey, AddressGroupKey)):
        yield from _id_problems("group", group.group)
    else:
        yield "group", f"{group!r} is no group"
    yield from _prefix_problems("prefix", member.prefix)
    if member.mac is not None:
        yield from _mac_problems("mac", member.mac)


def _id_problems(field: str, id: object) -> Iterator[Problem]:
    if not isinstance(id, UUID):
        yield field, f"{id!r} is not an id"


def _mac_problems(field: str, mac: object) -> Iterator[Problem]:
    try:
        right = isinstance(mac, str) and Mac(str(mac)) == mac
    except ValueError:
        right = False
    if not right:
        yield field, f"{mac!r} is not a MAC address as netfw writes it"


def _prefix_problems(field: str, prefix: object) -> Iterator[Problem]:
    if not isinstance(prefix, (IPv4Network, IPv6Network)):
        yield field, f"{prefix!r} is not a prefix"
        return
    try:
        unscoped(prefix)
    except ValueError as error:
        yield field, str(error)
