"""QoS policies, their rules, and the types of rules."""

from __future__ import annotations

from typing import Any

from netfw.model.qos import DSCP_MARKS, RATES, AnyDirection, QosRuleType
from netfw.model.wire.codec import Codec, Listed, Scalar
from netfw.model.wire.common import DIRECTION
from netfw.model.wire.scalars import DOCUMENT, TEXT, choice, integer
from netfw.server.api.resources.common import (
    FOR_ADMINS,
    IDENTITY,
    NAMED,
    STANDARD,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, checked
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    READ,
    READER,
    ApiAttribute,
    ApiResource,
    Verb,
)

PREFIX = "qos"
_READERS = f"{ADMIN} or role:reader or role:member"
"""Plugins hide rules of policies that a requester may not see."""
_RATE = integer(RATES.start, RATES.stop - 1)


def _check_mark(mark: int) -> None:
    if mark not in DSCP_MARKS:
        raise ValueError(f"{mark} is none of {sorted(DSCP_MARKS)}")


_MARK = Scalar(
    checked(integer(0, 63), _check_mark).parse,
    int,
    {"type": "integer", "enum": sorted(DSCP_MARKS)},
)


def _managers(owner: str) -> dict[Verb, str]:
    """Return the checks of writing: administrators, and managers of the project that owns it."""
    check = f"{ADMIN} or (role:manager and {owner})"
    return {Verb.CREATE: check, Verb.UPDATE: check, Verb.DELETE: check}


def _rate(name: str, *, required: bool = False) -> ApiAttribute:
    default: Any = {} if required else {"default": 0}
    return ApiAttribute(name=name, codec=_RATE, required=required, sortable=True, **default)


def _direction(codec: Codec[Any] = DIRECTION) -> ApiAttribute:
    return ApiAttribute(name="direction", codec=codec, default="egress", sortable=True)


_ATTRIBUTES: dict[QosRuleType, tuple[ApiAttribute, ...]] = {
    QosRuleType.BANDWIDTH_LIMIT: (
        _rate("max_kbps", required=True),
        _rate("max_burst_kbps"),
        _direction(),
    ),
    QosRuleType.DSCP_MARKING: (
        ApiAttribute(
            name="dscp_mark",
            codec=_MARK,
            required=True,
            sortable=True,
        ),
    ),
    QosRuleType.MINIMUM_BANDWIDTH: (_rate("min_kbps", required=True), _direction()),
    QosRuleType.MINIMUM_PACKET_RATE: (
        _rate("min_kpps", required=True),
        _direction(choice(AnyDirection, fold=True)),
    ),
    QosRuleType.PACKET_RATE_LIMIT: (
        _rate("max_kpps", required=True),
        _rate("max_burst_kpps"),
        _direction(),
    ),
}

POLICY = ApiResource(
    name="policy",
    collection="policies",
    prefix=PREFIX,
    checks={**_managers("rule:owner"), Verb.SHOW: f"{READER} or True:%(shared)s"},
    tags=True,
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(
            name="shared",
            codec=FLAG,
            default=False,
            checks=FOR_ADMINS,
            note="All projects may use it.",
        ),
        ApiAttribute(
            name="is_default",
            codec=FLAG,
            default=False,
            note="New networks of the project without a policy get it.",
        ),
        read_only("rules", Listed(DOCUMENT)),
    ),
)


def _rules(type: QosRuleType) -> ApiResource:
    return ApiResource(
        name=f"{type}_rule",
        policy_name=f"policy_{type}_rule",
        collection=f"{type}_rules",
        parent="policy",
        parent_attribute="policy_id",
        parents={"policy": "policy_id"},
        checks={**_managers("rule:ext_parent_owner"), Verb.SHOW: _READERS},
        attributes=(IDENTITY, *_ATTRIBUTES[type]),
    )


def _alias(type: QosRuleType) -> ApiResource:
    """Return the rules of a type by a URL without their policy."""
    return ApiResource(
        name=f"alias_{type}_rule",
        collection=f"alias-{type.replace('_', '-')}-rules",
        prefix=PREFIX,
        checks={**_managers("rule:owner"), Verb.SHOW: _READERS},
        verbs=frozenset({Verb.SHOW, Verb.UPDATE, Verb.DELETE}),
        listed=False,
        attributes=(
            IDENTITY,
            read_only("project_id", TEXT),
            read_only("tenant_id", TEXT),
            *_ATTRIBUTES[type],
        ),
    )


RULE_TYPE = ApiResource(
    name="rule_type",
    collection="rule-types",
    prefix=PREFIX,
    identity="type",
    verbs=READ,
    checks={Verb.SHOW: _READERS},
    attributes=(
        read_only("type", TEXT, filterable=True, sortable=True),
        read_only("drivers", Listed(DOCUMENT), note="Only shown for a single type, and to admins."),
        read_only(
            "all_supported",
            FLAG,
            filterable=True,
            shown=False,
            note="A filter: types that any driver enforces, instead of those that all do.",
        ),
        read_only(
            "all_rules", FLAG, filterable=True, shown=False, note="A filter: all types there are."
        ),
    ),
)

QOS_RESOURCES = (
    POLICY,
    *(_rules(each) for each in QosRuleType),
    *(_alias(each) for each in QosRuleType if each is not QosRuleType.PACKET_RATE_LIMIT),
    RULE_TYPE,
)
