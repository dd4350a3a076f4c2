"""Subnet pools, address scopes and auto-allocated topologies."""

from __future__ import annotations

from attrs import evolve

from netfw.model.subnet_pool import MAX_PREFIXES
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.scalars import CIDR, ID, IP_VERSION, NUMBER, TAG, TEXT
from netfw.model.wire.subnet_pools import PREFIX_LENGTH
from netfw.server.api.resources.common import (
    FOR_ADMINS,
    NAMED,
    OWN,
    STANDARD,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    MEMBER,
    READER,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)

SHARED = "True:%(shared)s"
_PREFIXES = Listed(CIDR, limit=MAX_PREFIXES)
_LENGTH_SCHEMA = {**PREFIX_LENGTH.schema, "type": ["integer", "string"], "pattern": "^[0-9]{1,3}$"}
_LENGTH = evolve(PREFIX_LENGTH, schema=_LENGTH_SCHEMA)
"""A prefix length in requests; responses have it as text."""


def _prefix_action(name: str) -> ApiAction:
    prefixes = ApiAttribute(name="prefixes", codec=_PREFIXES, required=True)
    return ApiAction(name=name, attributes=(prefixes,), check=MEMBER)


SUBNET_POOL = ApiResource(
    name="subnetpool",
    collection="subnetpools",
    checks={**OWN, Verb.SHOW: f"{READER} or {SHARED}"},
    tags=True,
    quota="subnetpool",
    attributes=(
        *STANDARD,
        ApiAttribute(name="name", codec=TAG, required=True, sortable=True),
        ApiAttribute(
            name="prefixes",
            codec=_PREFIXES,
            required=True,
            filterable=False,
            note="Adjacent and overlapping ones are joined; an update can only add some.",
        ),
        *(
            ApiAttribute(name=name, codec=_LENGTH, sortable=True, note=note)
            for name, note in {
                "min_prefixlen": "Unless given 8 for IPv4 and 64 for IPv6.",
                "default_prefixlen": "Of subnets that request none; unless given min_prefixlen.",
                "max_prefixlen": "Unless given 32 for IPv4 and 128 for IPv6.",
            }.items()
        ),
        ApiAttribute(
            name="default_quota",
            codec=Nullable(NUMBER),
            default=None,
            sortable=True,
            note="What each project may have of it: IPv4 addresses, or IPv6 /64 prefixes.",
        ),
        ApiAttribute(name="address_scope_id", codec=Nullable(ID), default=None, sortable=True),
        ApiAttribute(
            name="is_default", codec=FLAG, default=False, checks=FOR_ADMINS, sortable=True
        ),
        ApiAttribute(
            name="shared",
            codec=FLAG,
            default=False,
            update=False,
            checks={Verb.CREATE: ADMIN},
            sortable=True,
        ),
        read_only("ip_version", IP_VERSION, filterable=True, sortable=True),
    ),
    actions=(
        _prefix_action("add_prefixes"),
        _prefix_action("remove_prefixes"),
        ApiAction(
            name="onboard_network_subnets",
            attributes=(ApiAttribute(name="network_id", codec=ID, required=True),),
            check=MEMBER,
        ),
    ),
)

ADDRESS_SCOPE = ApiResource(
    name="address_scope",
    collection="address-scopes",
    checks={**OWN, Verb.SHOW: f"{READER} or {SHARED}"},
    attributes=(
        *(each for each in STANDARD if each.name != "tags"),
        NAMED,
        ApiAttribute(
            name="ip_version", codec=IP_VERSION, required=True, update=False, sortable=True
        ),
        ApiAttribute(
            name="shared",
            codec=FLAG,
            default=False,
            checks=FOR_ADMINS,
            sortable=True,
            note="Cannot be withdrawn.",
        ),
    ),
)

AUTO_ALLOCATED_TOPOLOGY = ApiResource(
    name="auto_allocated_topology",
    collection="auto-allocated-topology",
    plural="auto_allocated_topologies",
    verbs=frozenset({Verb.SHOW, Verb.DELETE}),
    listed=False,
    identity="project_id",
    one_per_project=True,
    dry_run="dry-run",
    checks={Verb.SHOW: READER, Verb.DELETE: MEMBER},
    attributes=(
        read_only("id", ID, note="The network."),
        read_only("project_id", TEXT),
        read_only("tenant_id", TEXT),
    ),
)

SUBNET_POOL_RESOURCES = (SUBNET_POOL, ADDRESS_SCOPE, AUTO_ALLOCATED_TOPOLOGY)
