"""Tables of QoS policies, their rules, and what uses them.

A policy has its rules in its document.  The rows of what uses a policy refer to it, so that the
database itself keeps a policy that is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from netfw.model.resource import Kind
from netfw.server.db.schema.columns import TABLE_OPTIONS, text, word
from netfw.server.db.schema.table_mapping import (
    METADATA,
    Relation,
    Rows,
    flag_column,
    mapping,
    owner_column,
)

QOS_RULES: Final = Table(
    "qos_rules",
    METADATA,
    owner_column("policy_id", "qos_policies"),
    Column("rule_id", word(), primary_key=True),
    Column("type", word(), nullable=False),
    Index(None, "rule_id"),
    **TABLE_OPTIONS,
)
"""The policy of each rule."""
DEFAULT_QOS_POLICIES: Final = Table(
    "default_qos_policies",
    METADATA,
    owner_column("policy_id", "qos_policies"),
    Column("project_id", text(), nullable=False),
    UniqueConstraint("project_id"),
    **TABLE_OPTIONS,
)
"""At most one policy of each project, for its new networks."""


def _rules(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((rule["id"], rule["type"]) for rule in body["rules"])


def _defaults(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset({(body["project_id"],)} if body["is_default"] else ())


def _policy(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    policy = body["qos_policy_id"]
    return frozenset() if policy is None else frozenset({(policy,)})


def _gateway_policy(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    gateway = body["external_gateway_info"]
    return frozenset() if gateway is None else _policy(gateway)


def _uses(owner: str, owners: str, rows: Rows) -> Relation:
    """Return the relation of the resources in the table *owners* to their policies."""
    name = f"{owner}_qos_policies"
    table = Table(
        name,
        METADATA,
        owner_column(f"{owner}_id", owners),
        Column("policy_id", word(), ForeignKey("qos_policies.id"), nullable=False),
        Index(None, "policy_id"),
        **TABLE_OPTIONS,
    )
    return Relation(table=table, rows=rows)


NETWORK_POLICY = _uses("network", "networks", _policy)
PORT_POLICY = _uses("port", "ports", _policy)
FLOATING_IP_POLICY = _uses("floating_ip", "floating_ips", _policy)
ROUTER_POLICY = _uses("router", "routers", _gateway_policy)
USES: Final[Mapping[Kind, Relation]] = {
    Kind.NETWORK: NETWORK_POLICY,
    Kind.PORT: PORT_POLICY,
    Kind.FLOATING_IP: FLOATING_IP_POLICY,
    Kind.ROUTER: ROUTER_POLICY,
}
"""The kinds that use policies."""
QOS_TABLES = (
    mapping(
        Kind.QOS_POLICY,
        "qos_policies",
        (flag_column("shared"), flag_column("is_default")),
        relations=(
            Relation(table=QOS_RULES, rows=_rules),
            Relation(table=DEFAULT_QOS_POLICIES, rows=_defaults),
        ),
    ),
)
