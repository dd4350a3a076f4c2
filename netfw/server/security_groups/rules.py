"""SecurityGroupRuleHandler: the rules of security groups, and their validation.

Creation and deletion of a rule lock its group first, so that equal rules of two transactions meet
there, and the group gets its next revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.server.attribute import Value
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import Forbidden, InvalidInput, merge_invalid
from netfw.errors.requests import HTTPBadRequest
from netfw.errors.security_groups import (
    DuplicateSecurityGroupRuleInPost,
    SecurityGroupEthertypeConflictWithProtocol,
    SecurityGroupInvalidIcmpValue,
    SecurityGroupInvalidPortRange,
    SecurityGroupInvalidPortValue,
    SecurityGroupInvalidProtocolForPort,
    SecurityGroupMissingIcmpType,
    SecurityGroupMultipleRemoteEntites,
    SecurityGroupNotFound,
    SecurityGroupProtocolRequiredWithPorts,
    SecurityGroupRuleExists,
    SecurityGroupRuleInvalidProtocol,
    SecurityGroupRuleParameterConflict,
)
from netfw.model.resource import Kind, ref
from netfw.model.security_group import (
    PARENT,
    DefaultSecurityGroupRule,
    Ethertype,
    SecurityGroup,
    SecurityGroupRule,
    TrafficMatch,
)
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.port_range import PORTS
from netfw.model.values.protocol import ICMP, ICMPV6, NAMES, NUMBERS, PORTED
from netfw.model.wire import parse, render
from netfw.model.wire.scalars import CIDR, PROTOCOL
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.unenforceable_rules import check_rules

CHANGEABLE = frozenset({"description"})
RELATED = ("protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
REMOTES = ("remote_ip_prefix", "remote_group_id", "remote_address_group_id")
"""Attributes whose meaning depends on the protocol, or on the ethertype."""


class SecurityGroupRuleHandler(StoredResourceHandler[SecurityGroupRule]):
    """Rules of security groups; only their description can be changed."""

    name = "security_group_rule"
    kind = Kind.SECURITY_GROUP_RULE
    quota: ClassVar[str | None] = "security_group_rule"

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[SecurityGroupRule, ...]:
        parsed = (parse_rule(self.kind, body) for body in bodies)
        rules = cast("tuple[SecurityGroupRule, ...]", tuple(parsed))
        check_rules(unit, rules)
        groups = _lock_groups(unit, rules)
        _refuse_repeated(unit, rules)
        for rule, body in zip(rules, bodies, strict=True):
            if words := requested_spelling(rule, body):
                unit.set_extra(ref(rule), words)
        stored = unit.insert(*rules)
        for id in sorted({rule.security_group_id for rule in rules}):
            unit.touch(groups[id])
        return stored

    def do_update(
        self, unit: UnitOfWork, before: SecurityGroupRule, body: Body
    ) -> SecurityGroupRule:
        if fixed := set(body) - CHANGEABLE:
            raise HTTPBadRequest(
                dict.fromkeys(sorted(fixed), "cannot be changed; delete the rule, make another")
            )
        description = str(body.get("description", before.description))
        return unit.update(before, evolve(before, description=description))

    def do_delete(self, unit: UnitOfWork, before: SecurityGroupRule) -> None:
        row = unit.tx.resources.get(Kind.SECURITY_GROUP, before.security_group_id, lock=True)
        unit.delete(before)
        unit.touch(cast(SecurityGroup, row.resource()))

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        return super().find(reader, requester, with_stored_spelling(query))

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        for body in bodies:
            add_nulls(body)


def add_nulls(body: MutableMapping[str, Any]) -> None:
    """Add the derived attributes to a rule."""
    body.setdefault("normalized_cidr", body["remote_ip_prefix"])


def rules_of(reader: Reader, **filters: tuple[Value, ...]) -> tuple[SecurityGroupRule, ...]:
    """Return the rules that match *filters*."""
    rows = reader.resources.find(Kind.SECURITY_GROUP_RULE, Query(filters=filters))
    return tuple(cast(SecurityGroupRule, row.resource()) for row in rows)


def parse_rule(kind: Kind, body: Body) -> TrafficMatch:
    """Return the rule of a request, with a new id; *kind*: of a group, or a default rule.

    :raises InvalidInput: it contradicts itself.
    """
    _check_remotes(kind, body)
    id = str(uuid4())
    bare = {name: value for name, value in body.items() if name not in RELATED}
    plain = cast(TrafficMatch, parse(kind, {**bare, "id": id}))
    low, high, prefix = (body.get(name) for name in RELATED[1:])
    protocol = _parse_protocol(body.get("protocol"))
    check_range(protocol, cast("int | None", low), cast("int | None", high))
    check_family(plain.ethertype, protocol, cast("str | None", prefix))
    return cast(TrafficMatch, parse(kind, {**body, "id": id}))


def _check_remotes(kind: Kind, body: Body) -> None:
    """Validate that a rule has one kind of remote, and that its group can exist."""
    if second := [name for name in REMOTES if body.get(name) is not None][1:]:
        text = "a rule has one kind of remote at most"
        raise SecurityGroupMultipleRemoteEntites(dict.fromkeys(second, text))
    group = body.get("remote_group_id")
    if group is None or (group == PARENT and kind is not Kind.SECURITY_GROUP_RULE):
        return
    try:
        UUID(str(group))
    except ValueError:
        raise SecurityGroupNotFound(f"there is no security_group {str(group)[:80]!r}") from None


def _parse_protocol(raw: object) -> int | None:
    try:
        return PROTOCOL.parse(raw)
    except ValueError as exc:
        raise SecurityGroupRuleInvalidProtocol({"protocol": str(exc)}) from exc


def requested_spelling(
    rule: SecurityGroupRule | DefaultSecurityGroupRule, body: Body
) -> dict[str, Any]:
    """Return the attributes that the requester spelled differently, to show them again."""
    ours = render(rule)
    words: dict[str, Any] = {}
    protocol = str(body.get("protocol"))
    if rule.protocol is not None and protocol.isdecimal() and protocol != ours["protocol"]:
        words["protocol"] = str(rule.protocol)
    prefix = body.get("remote_ip_prefix")
    if prefix is not None and prefix != ours["remote_ip_prefix"]:
        words |= {"remote_ip_prefix": prefix, "normalized_cidr": ours["remote_ip_prefix"]}
    return words


def with_stored_spelling(query: Query) -> Query:
    """Return *query* with protocols and prefixes as they are stored, however rules show them."""
    spellings = {"protocol": _protocol_name, "remote_ip_prefix": _stored_prefix}
    filters = {
        name: tuple(map(spellings[name], values)) if name in spellings else values
        for name, values in query.filters.items()
    }
    return evolve(query, filters=filters)


def _stored_prefix(value: Value) -> Value:
    try:
        return value if value is None else str(CIDR.parse(value))
    except ValueError:
        return value  # no rule has it


def _protocol_name(value: Value) -> Value:
    """Return the stored spelling of a protocol that a filter names or numbers."""
    if value is None or not isinstance(value, str | int):
        return value
    word = str(value).lower()
    if word in ("any", "0"):
        return None
    number = NUMBERS.get(word) or (int(word) if word.isdecimal() and len(word) < 4 else None)
    return word if number is None else NAMES.get(number, str(number))


def _lock_groups(
    unit: UnitOfWork, rules: Sequence[SecurityGroupRule]
) -> Mapping[UUID, SecurityGroup]:
    """Lock the groups of *rules*, in the same order in all transactions.

    :raises NotFound: one does not exist, or is invisible to the requester.
    :raises Forbidden: a group belongs to another project.
    """
    own = {rule.security_group_id for rule in rules}
    remote = {rule.remote_group_id for rule in rules if rule.remote_group_id is not None}
    groups: dict[UUID, SecurityGroup] = {}
    for id in sorted(own | remote):
        row = unit.tx.resources.get(Kind.SECURITY_GROUP, id, project=unit.requester.sees, lock=True)
        groups[id] = cast(SecurityGroup, row.resource())
    for other in sorted({each for rule in rules if (each := rule.remote_address_group_id)}):
        unit.tx.resources.get(Kind.ADDRESS_GROUP, other, project=unit.requester.sees, lock=True)
    for id in own:
        if unit.requester.sees not in (None, groups[id].project_id):
            raise Forbidden(f"security group {id} is shared with you; its owner makes its rules")
    return groups


TrafficIdentity = tuple[object, ...]


def traffic_identity(rule: TrafficMatch) -> TrafficIdentity:
    """Return the key by which the traffic of two rules is equal, however they are written."""
    low, high, prefix = rule.port_min, rule.port_max, rule.remote_prefix
    if rule.protocol in PORTED and low is None:
        low, high = PORTS.start, PORTS.stop - 1
    if prefix is not None and prefix.prefixlen == 0:
        prefix = None
    what = (rule.direction, rule.ethertype, rule.ip_protocol, low, high)
    remote = (prefix, rule.remote_group_id, rule.remote_address_group_id)
    return (*what, *remote)


def _identity(rule: SecurityGroupRule) -> TrafficIdentity:
    return (rule.security_group_id, *traffic_identity(rule))


def _refuse_repeated(unit: UnitOfWork, rules: Sequence[SecurityGroupRule]) -> None:
    """Refuse existing rules, by one statement that finds few others, however many there are."""
    wanted: dict[TrafficIdentity, SecurityGroupRule] = {}
    for rule in rules:
        if _identity(rule) in wanted:
            raise DuplicateSecurityGroupRuleInPost(
                f"the request has the same rule twice: {describe_rule(rule)}"
            )
        wanted[_identity(rule)] = rule
    for found in rules_of(unit.tx, **_narrow_filters(rules)):
        if _identity(found) in wanted:
            raise SecurityGroupRuleExists(
                f"security group {found.security_group_id} has this rule already "
                f"({found.id}): {describe_rule(found)}"
            )


def _narrow_filters(rules: Sequence[SecurityGroupRule]) -> dict[str, tuple[Value, ...]]:
    """Return filters that keep every rule that may equal one of *rules*."""
    chosen: dict[str, set[Value]] = {}
    for rule in rules:
        body = render(rule)
        for name in ("security_group_id", "direction", "ethertype", "protocol", "remote_group_id"):
            chosen.setdefault(name, set()).add(body[name])
        if rule.ip_protocol == ICMPV6:
            chosen["protocol"] |= {NAMES[ICMP], NAMES[ICMPV6]}
        prefix = rule.remote_prefix
        any_address = prefix is None or prefix.prefixlen == 0
        prefixes = {None, "0.0.0.0/0", "::/0"} if any_address else {str(prefix)}
        chosen.setdefault("remote_ip_prefix", set()).update(prefixes)
        all_ports = rule.port_min in (None, PORTS.start)
        lows = {None, PORTS.start} if all_ports else {rule.port_min}
        chosen.setdefault("port_range_min", set()).update(lows)
    return {name: tuple(values) for name, values in chosen.items()}


def describe_rule(rule: SecurityGroupRule | DefaultSecurityGroupRule) -> str:
    """Render a rule in one line."""
    body = render(rule)
    ports = "" if rule.port_min is None else f" {rule.port_min}:{rule.port_max}"
    remote = rule.remote_prefix or rule.remote_group_id or rule.remote_address_group_id or "any"
    protocol = body["protocol"] or "any protocol"
    return f"{rule.direction} {rule.ethertype} {protocol}{ports}, remote {remote}"


def group_ids(rules: Iterable[SecurityGroupRule]) -> frozenset[SecurityGroupId]:
    """Return the groups of *rules*."""
    return frozenset(rule.security_group_id for rule in rules)


ICMP_NUMBERS = range(256)
IPV6_ONLY = frozenset(number for number, name in NAMES.items() if name.startswith("ipv6-"))
"""Protocols that the API accepts in IPv6 rules only."""


def check_family(ethertype: Ethertype, protocol: int | None, prefix: str | None) -> None:
    """Validate protocol and prefix against the ethertype of a rule.

    :raises InvalidInput: one is of the other family.
    """
    if protocol is not None and protocol in IPV6_ONLY and ethertype is Ethertype.IPV4:
        text = f"Conflicting value ethertype IPv4: {NAMES[protocol]} is for IPv6"
        raise SecurityGroupEthertypeConflictWithProtocol({"protocol": text})
    if prefix is not None and (":" in prefix) != (ethertype is Ethertype.IPV6):
        text = f"Conflicting value ethertype {ethertype}: not that of {prefix}"
        raise SecurityGroupRuleParameterConflict({"remote_ip_prefix": text})


def check_range(protocol: int | None, low: int | None, high: int | None) -> None:
    """Validate the range of a rule: ports, or ICMP type and code.

    :raises InvalidInput: it does not fit the protocol.
    """
    given = [
        name for name, n in (("port_range_min", low), ("port_range_max", high)) if n is not None
    ]
    if not given:
        return
    if protocol in PORTED:
        errors = list(_port_errors(low, high))
    elif protocol in (ICMP, ICMPV6):
        errors = list(_icmp_errors(low, high))
    else:
        problems = dict.fromkeys(given, "a range of ports needs a protocol that has ports")
        if protocol is None:
            raise SecurityGroupProtocolRequiredWithPorts(problems)
        raise SecurityGroupInvalidProtocolForPort(problems)
    if errors:
        raise merge_invalid(errors)


def _port_errors(low: int | None, high: int | None) -> Iterator[InvalidInput]:
    given = {"port_range_min": low, "port_range_max": high}
    wrong = {name: n for name, n in given.items() if n is not None and n not in PORTS}
    for name, number in wrong.items():
        text = f"Invalid value for port {number}: it is not 1 to 65535"
        yield SecurityGroupInvalidPortValue({name: text})
    order = "port_range_min must be <= port_range_max"
    if not wrong and (low is None) != (high is None):
        yield SecurityGroupInvalidPortRange({"port_range_max": f"{order}: give both, or none"})
    elif not wrong and low is not None and high is not None and low > high:
        text = f"{order}: {high} is before {low}"
        yield SecurityGroupInvalidPortRange({"port_range_max": text})


def _icmp_errors(kind: int | None, code: int | None) -> Iterator[InvalidInput]:
    if kind is not None and kind not in ICMP_NUMBERS:
        text = f"Invalid value for ICMP type {kind}: it is not 0 to 255"
        yield SecurityGroupInvalidIcmpValue({"port_range_min": text})
    if code is not None and code not in ICMP_NUMBERS:
        text = f"Invalid value for ICMP code {code}: it is not 0 to 255"
        yield SecurityGroupInvalidIcmpValue({"port_range_max": text})
    if kind is None and code is not None:
        text = "ICMP type (port-range-min) is missing, and a code is given"
        yield SecurityGroupMissingIcmpType({"port_range_max": text})
