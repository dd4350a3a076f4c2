"""Security groups, their rules, the rules of new groups, address groups and packet logs."""

from __future__ import annotations

from typing import Any

from netfw.errors.security_groups import (
    SecurityGroupInvalidPortValue,
    SecurityGroupRuleInvalidEtherType,
    SecurityGroupRuleInvalidProtocol,
)
from netfw.model.packet_log import LogEvent
from netfw.model.security_group import MAX_ADDRESSES, Ethertype
from netfw.model.values.address import IpNetwork
from netfw.model.wire.codec import Listed, Nullable, Scalar
from netfw.model.wire.common import DIRECTION
from netfw.model.wire.scalars import CIDR, DOCUMENT, ID, PROTOCOL, choice, integer
from netfw.server.api.resources.common import (
    DESCRIPTION,
    IDENTITY,
    NAMED,
    OWN,
    REVISION_NUMBER,
    STANDARD,
    TIMES,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, NAME, Either, Null
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    MEMBER,
    READER,
    REGULAR_USER,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)

_GROUP_OWNER = "((role:reader or role:member) and project_id:%(security_group:project_id)s)"


def _parse_protocol(raw: object) -> str | None:
    """Parse a protocol, and return it as the client wrote it: by name or by number."""
    number = PROTOCOL.parse(raw)
    if number is None:
        return None
    return str(number) if str(raw).isdecimal() else str(PROTOCOL.render(number))


def _parse_prefix(raw: object) -> str:
    """Parse a prefix, and return it as written; ``normalized_cidr`` has no host bits."""
    prefix = CIDR.parse(raw)
    return str(raw) if "/" in str(raw) else str(prefix)


def _parse_port(raw: object) -> int:
    """Parse a port, or an ICMP type or code; clients match the text of the error."""
    number = _NUMBER.parse(raw)
    if not 0 <= number <= 65535:
        raise ValueError(f"Invalid value for port {number}: give 0 to 65535")
    return number


_NUMBER = integer(-(2**63), 2**63 - 1)
_PORT = Nullable(Scalar(_parse_port, int, integer(0, 65535).schema))
_PROTOCOL: Scalar[Any] = Scalar(_parse_protocol, lambda value: value, PROTOCOL.schema)
_PREFIX: Scalar[str] = Scalar(_parse_prefix, str, CIDR.schema)


def _port_attribute(name: str) -> ApiAttribute:
    return ApiAttribute(
        name=name,
        codec=_PORT,
        error=SecurityGroupInvalidPortValue,
        default=None,
        update=False,
        sortable=True,
    )


_TRAFFIC_MATCH = (
    ApiAttribute(name="direction", codec=DIRECTION, required=True, update=False, sortable=True),
    ApiAttribute(
        name="ethertype",
        codec=choice(Ethertype, fold=True),
        error=SecurityGroupRuleInvalidEtherType,
        default="IPv4",
        update=False,
        sortable=True,
    ),
    ApiAttribute(
        name="protocol",
        codec=_PROTOCOL,
        error=SecurityGroupRuleInvalidProtocol,
        default=None,
        update=False,
        sortable=True,
    ),
    _port_attribute("port_range_min"),
    _port_attribute("port_range_max"),
    ApiAttribute(
        name="remote_ip_prefix",
        codec=Nullable(_PREFIX),
        default=None,
        update=False,
        sortable=True,
    ),
    ApiAttribute(name="remote_address_group_id", codec=Nullable(ID), default=None, update=False),
)

SECURITY_GROUP = ApiResource(
    name="security_group",
    collection="security-groups",
    checks={**OWN, Verb.SHOW: f"{READER} or True:%(shared)s"},
    tags=True,
    quota="security_group",
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(name="stateful", codec=FLAG, default=True, sortable=True),
        read_only("shared", FLAG, filterable=True),
        read_only("security_group_rules", Listed(DOCUMENT)),
    ),
)

SECURITY_GROUP_RULE = ApiResource(
    name="security_group_rule",
    collection="security-group-rules",
    checks={**OWN, Verb.SHOW: f"{READER} or {_GROUP_OWNER}"},
    parents={"security_group": "security_group_id"},
    tags=True,
    quota="security_group_rule",
    attributes=(
        *STANDARD,
        ApiAttribute(
            name="security_group_id", codec=ID, required=True, update=False, sortable=True
        ),
        *_TRAFFIC_MATCH,
        ApiAttribute(
            name="remote_group_id",
            codec=Nullable(Either(ID, NAME)),
            default=None,
            update=False,
            note="What is no id is a group that does not exist.",
        ),
        read_only("normalized_cidr", Nullable(CIDR)),
    ),
)

DEFAULT_SECURITY_GROUP_RULE = ApiResource(
    name="default_security_group_rule",
    collection="default-security-group-rules",
    verbs=frozenset({Verb.CREATE, Verb.SHOW, Verb.DELETE}),
    checks={Verb.CREATE: ADMIN, Verb.SHOW: REGULAR_USER, Verb.DELETE: ADMIN},
    attributes=(
        IDENTITY,
        DESCRIPTION,
        *_TRAFFIC_MATCH,
        ApiAttribute(
            name="remote_group_id",
            codec=Nullable(Either(ID, NAME)),
            default=None,
            sortable=True,
            note="PARENT is the group that gets the rule.",
        ),
        ApiAttribute(name="used_in_default_sg", codec=FLAG, default=False),
        ApiAttribute(name="used_in_non_default_sg", codec=FLAG, default=True),
        REVISION_NUMBER,
        *TIMES,
    ),
)


def _parse_whole_prefix(raw: object) -> IpNetwork:
    """Parse a prefix with its length; host bits are cleared."""
    prefix = CIDR.parse(raw)
    if "/" not in str(raw):
        raise ValueError(f"an address without prefix length: give {prefix}")
    return prefix


_WHOLE_PREFIX = Scalar(_parse_whole_prefix, str, CIDR.schema)
_ADDRESSES = Null(Listed(_WHOLE_PREFIX, limit=MAX_ADDRESSES), [])
_ADDRESSES_OF = (
    ApiAttribute(
        name="addresses",
        codec=Listed(CIDR, limit=MAX_ADDRESSES),
        required=True,
        note="An address without prefix length is that address alone.",
    ),
)

ADDRESS_GROUP = ApiResource(
    name="address_group",
    collection="address-groups",
    checks={**OWN, Verb.SHOW: f"{READER} or True:%(shared)s"},
    tags=True,
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(
            name="addresses", codec=_ADDRESSES, default=[], update=False, filterable=False
        ),
        read_only("shared", FLAG, filterable=True),
    ),
    actions=tuple(
        ApiAction(
            name=name,
            attributes=_ADDRESSES_OF,
            check=MEMBER,
            shows=True,
            response_key="address_group",
        )
        for name in ("add_addresses", "remove_addresses")
    ),
)

PACKET_LOG = ApiResource(
    name="log",
    prefix="log",
    collection="logs",
    checks=dict.fromkeys(Verb, ADMIN),
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(name="resource_type", codec=NAME, required=True, update=False, sortable=True),
        ApiAttribute(
            name="resource_id", codec=Nullable(ID), default=None, update=False, sortable=True
        ),
        ApiAttribute(
            name="target_id", codec=Nullable(ID), default=None, update=False, sortable=True
        ),
        ApiAttribute(name="event", codec=choice(LogEvent), default="ALL", update=False),
        ApiAttribute(name="enabled", codec=FLAG, default=True, sortable=True),
    ),
)
LOGGABLE_RESOURCE = ApiResource(
    name="loggable_resource",
    prefix="log",
    collection="loggable-resources",
    verbs=frozenset({Verb.SHOW}),
    member_shown=False,
    checks={Verb.SHOW: ADMIN},
    identity="type",
    attributes=(read_only("type", NAME, filterable=True),),
)

SECURITY_RESOURCES = (
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
    DEFAULT_SECURITY_GROUP_RULE,
    ADDRESS_GROUP,
    PACKET_LOG,
    LOGGABLE_RESOURCE,
)
