"""Firewall groups, policies and rules: those of the FWaaS v2 API, for interfaces of routers."""

from __future__ import annotations

import enum

from netfw.model.router_firewall import MAX_FIREWALL_PORTS, MAX_FIREWALL_RULES, FirewallAction
from netfw.model.values.port_range import PortRange
from netfw.model.wire.codec import Listed, Nullable, Scalar, describe
from netfw.model.wire.scalars import ADDRESS, CIDR, ID, IP_VERSION, PROTOCOL, TEXT, choice
from netfw.server.api.resources.common import ADMIN_STATE, FOR_ADMINS, NAMED, STANDARD, read_only
from netfw.server.api.schema.request_codecs import FLAG, Either, Null, long_text
from netfw.server.api.schema.resource_schema import (
    MEMBER,
    READER,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)


class NoPosition(enum.StrEnum):
    """What clients write that leave the position of a rule open."""

    EMPTY = ""


class FirewallStatus(enum.StrEnum):
    """The status of a firewall group."""

    ACTIVE = "ACTIVE"
    DOWN = "DOWN"
    INACTIVE = "INACTIVE"
    ERROR = "ERROR"


def _parse_ports(raw: object) -> PortRange:
    """Accept a port, or a range such as ``80:90``."""
    text = str(raw) if isinstance(raw, int) and not isinstance(raw, bool) else raw
    first, colon, last = text.partition(":") if isinstance(text, str) else ("", "", "")
    ends = (first, last) if colon else (first, first)
    if any(not each.isascii() or not each.isdigit() or len(each) > 5 for each in ends):
        raise ValueError(f"neither a port nor a range such as 80:90: {describe(raw)}")
    return PortRange(int(ends[0]), int(ends[1]))


def _render_ports(ports: PortRange) -> str:
    return str(ports) if len(ports) > 1 else str(ports.first)


PORTS = Scalar(
    _parse_ports, _render_ports, {"type": "string", "pattern": "^[0-9]{1,5}(:[0-9]{1,5})?$"}
)
_CHECKS = {
    Verb.CREATE: MEMBER,
    Verb.SHOW: f"{READER} or True:%(shared)s",
    Verb.UPDATE: MEMBER,
    Verb.DELETE: MEMBER,
}
_STANDARD = tuple(each for each in STANDARD if each.name not in ("description", "tags"))
_COMMON = (
    *_STANDARD,
    NAMED,
    ApiAttribute(name="description", codec=long_text(1024), default="", sortable=True),
    ApiAttribute(
        name="shared",
        codec=FLAG,
        default=False,
        sortable=True,
        checks=FOR_ADMINS,
        note="All projects see it, and can use it.",
    ),
)
_ADDRESS = Nullable(Either(ADDRESS, CIDR))

FIREWALL_RULE = ApiResource(
    name="firewall_rule",
    collection="firewall_rules",
    prefix="fwaas",
    checks=_CHECKS,
    quota="firewall_rule",
    attributes=(
        *_COMMON,
        read_only("firewall_policy_id", Listed(ID), note="The policies that have the rule."),
        ApiAttribute(
            name="action", codec=choice(FirewallAction, fold=True), default="deny", sortable=True
        ),
        ApiAttribute(name="protocol", codec=PROTOCOL, default=None, sortable=True),
        ApiAttribute(name="ip_version", codec=IP_VERSION, default=4, sortable=True),
        ApiAttribute(name="source_ip_address", codec=_ADDRESS, default=None, sortable=True),
        ApiAttribute(name="destination_ip_address", codec=_ADDRESS, default=None, sortable=True),
        ApiAttribute(name="source_port", codec=Nullable(PORTS), default=None, sortable=True),
        ApiAttribute(name="destination_port", codec=Nullable(PORTS), default=None, sortable=True),
        ApiAttribute(name="enabled", codec=FLAG, default=True, sortable=True),
    ),
)
_RULE = ApiAttribute(name="firewall_rule_id", codec=ID, required=True)
_POSITION = tuple(
    ApiAttribute(name=name, codec=Nullable(Either(ID, choice(NoPosition))))
    for name in ("insert_before", "insert_after")
)
FIREWALL_POLICY = ApiResource(
    name="firewall_policy",
    collection="firewall_policies",
    prefix="fwaas",
    checks=_CHECKS,
    quota="firewall_policy",
    attributes=(
        *_COMMON,
        ApiAttribute(
            name="firewall_rules",
            codec=Null(Listed(ID, limit=MAX_FIREWALL_RULES), []),
            default=[],
            filterable=False,
            note="In order: the first that matches a packet decides.",
        ),
        ApiAttribute(
            name="audited",
            codec=FLAG,
            default=False,
            sortable=True,
            note="Becomes false with every change of the policy or of its rules.",
        ),
    ),
    actions=(
        ApiAction(name="insert_rule", attributes=(_RULE, *_POSITION), check=MEMBER, shows=True),
        ApiAction(name="remove_rule", attributes=(_RULE,), check=MEMBER, shows=True),
    ),
)
FIREWALL_GROUP = ApiResource(
    name="firewall_group",
    collection="firewall_groups",
    prefix="fwaas",
    checks=_CHECKS,
    quota="firewall_group",
    attributes=(
        *_COMMON,
        ADMIN_STATE,
        read_only(
            "status",
            choice(FirewallStatus),
            filterable=True,
            note="INACTIVE: it has no ports; DOWN: admin_state_up is false, all is denied; ERROR: "
            "packets are not filtered, see `status_reason`.",
        ),
        read_only("status_reason", Nullable(TEXT)),
        *(
            ApiAttribute(name=name, codec=Nullable(ID), default=None, sortable=True)
            for name in ("ingress_firewall_policy_id", "egress_firewall_policy_id")
        ),
        ApiAttribute(
            name="ports",
            codec=Null(Listed(ID, limit=MAX_FIREWALL_PORTS), []),
            default=[],
            filterable=False,
            note="Interfaces of routers.",
        ),
    ),
)

FIREWALL_RESOURCES = (FIREWALL_RULE, FIREWALL_POLICY, FIREWALL_GROUP)
