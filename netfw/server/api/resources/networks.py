"""Networks, their segments, and subnets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netfw.errors.networks import InvalidAllocationPool
from netfw.model.subnet import Ipv6Mode
from netfw.model.wire.codec import ABSENT, Absent, Codec, Listed, Nullable, Scalar
from netfw.model.wire.common import IDS
from netfw.model.wire.scalars import (
    ADDRESS,
    CIDR,
    ID,
    IP_VERSION,
    NETWORK_TYPE,
    NUMBER,
    PHYSICAL_NETWORK,
    SUBNET_POOL,
    TOKEN,
    choice,
)
from netfw.model.wire.subnet_pools import PREFIX_LENGTH
from netfw.server.api.resources.common import (
    ADMIN_STATE,
    DHCP_OPTIONS,
    FOR_ADMINS,
    IDENTITY,
    MAX_ITEMS,
    NAMED,
    ONLY_ADMINS,
    OWN,
    REVISION_NUMBER,
    ROUTE,
    STANDARD,
    STATUS_SHOWN,
    TAGS,
    TIMES,
    ZONE_HINTS,
    ZONES_SHOWN,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, NAME, Null, Record
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    MEMBER,
    NETWORK_OWNER,
    READER,
    ApiAttribute,
    ApiResource,
    Verb,
)

SHARED = "True:%(shared)s"
EXTERNAL = "True:%(router:external)s"


def _chosen(number: int) -> int | Absent:
    """Treat 0 as no MTU, as some clients write it."""
    return number or ABSENT


_TYPE = Nullable(NETWORK_TYPE)
_PHYSICAL = Nullable(PHYSICAL_NETWORK)
_NUMBER = Nullable(NUMBER)
_PROVIDER: Mapping[str, Codec[Any]] = {
    "provider:network_type": _TYPE,
    "provider:physical_network": _PHYSICAL,
    "provider:segmentation_id": _NUMBER,
}

NETWORK = ApiResource(
    name="network",
    collection="networks",
    checks={**OWN, Verb.SHOW: f"{READER} or {SHARED} or {EXTERNAL}"},
    tags=True,
    quota="network",
    attributes=(
        *STANDARD,
        NAMED,
        ADMIN_STATE,
        STATUS_SHOWN,
        ApiAttribute(name="shared", codec=FLAG, default=False, checks=FOR_ADMINS, sortable=True),
        ApiAttribute(
            name="router:external", codec=FLAG, default=False, checks=FOR_ADMINS, sortable=True
        ),
        ApiAttribute(name="is_default", codec=FLAG, default=False, checks=FOR_ADMINS),
        ApiAttribute(
            name="mtu", codec=Null(Scalar(NUMBER.parse, _chosen, NUMBER.schema)), sortable=True
        ),
        *(
            ApiAttribute(name=name, codec=codec, checks=ONLY_ADMINS)
            for name, codec in _PROVIDER.items()
        ),
        ApiAttribute(
            name="segments",
            codec=Null(Listed(Record(_PROVIDER), limit=MAX_ITEMS)),
            filterable=False,
            update=False,
            checks=ONLY_ADMINS,
            note="Of a network with several; such a network has no provider attributes of its own.",
        ),
        read_only("subnets", IDS, filterable=True),
        ApiAttribute(name="extra_dhcp_opts", codec=DHCP_OPTIONS, default=[], filterable=False),
        ZONE_HINTS,
        ZONES_SHOWN,
        read_only("ipv4_address_scope", Nullable(ID)),
        read_only("ipv6_address_scope", Nullable(ID)),
        read_only("vlan_transparent", Nullable(FLAG)),
    ),
)

SEGMENT = ApiResource(
    name="segment",
    collection="segments",
    verbs=frozenset({Verb.SHOW, Verb.UPDATE}),
    checks={Verb.UPDATE: ADMIN},
    attributes=(
        IDENTITY,
        read_only("network_id", ID, filterable=True),
        ApiAttribute(name="name", codec=Null(NAME, ""), create=False),
        read_only("network_type", NETWORK_TYPE, filterable=True),
        read_only("physical_network", _PHYSICAL, filterable=True),
        read_only("segmentation_id", _NUMBER, filterable=True),
        ApiAttribute(name="description", codec=NAME, create=False, filterable=False),
        read_only("tags", TAGS.codec),
        REVISION_NUMBER,
        *TIMES,
    ),
)

_POOL = Record({"start": ADDRESS, "end": ADDRESS}, required=("start", "end"))
_MODE = Nullable(choice(Ipv6Mode))

SUBNET = ApiResource(
    name="subnet",
    collection="subnets",
    checks={
        Verb.CREATE: NETWORK_OWNER,
        Verb.SHOW: f"{READER} or {NETWORK_OWNER} or True:%(network:shared)s",
        Verb.UPDATE: f"{MEMBER} or {NETWORK_OWNER}",
        Verb.DELETE: f"{MEMBER} or {NETWORK_OWNER}",
    },
    parents={"network": "network_id"},
    tags=True,
    quota="subnet",
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(name="network_id", codec=ID, required=True, update=False, sortable=True),
        ApiAttribute(
            name="ip_version",
            codec=IP_VERSION,
            update=False,
            sortable=True,
            note="Follows from the prefix; when given it must agree.",
        ),
        ApiAttribute(
            name="cidr",
            codec=CIDR,
            update=False,
            sortable=True,
            note="Required, unless a subnet pool or a provider chooses it.",
        ),
        ApiAttribute(
            name="gateway_ip",
            codec=Nullable(ADDRESS),
            sortable=True,
            note="Unless given the first address; null: no gateway.",
        ),
        ApiAttribute(
            name="allocation_pools",
            codec=Null(Listed(_POOL, limit=MAX_ITEMS)),
            error=InvalidAllocationPool,
            filterable=False,
        ),
        ApiAttribute(
            name="dns_nameservers",
            codec=Null(Listed(ADDRESS), []),
            default=[],
            filterable=False,
        ),
        ApiAttribute(
            name="host_routes", codec=Null(Listed(ROUTE), []), default=[], filterable=False
        ),
        ApiAttribute(name="enable_dhcp", codec=FLAG, default=True, sortable=True),
        ApiAttribute(name="ipv6_ra_mode", codec=_MODE, default=None, update=False),
        ApiAttribute(name="ipv6_address_mode", codec=_MODE, default=None, update=False),
        ApiAttribute(name="segment_id", codec=Nullable(ID), default=None, checks=FOR_ADMINS),
        ApiAttribute(
            name="service_types",
            codec=Listed(TOKEN, limit=MAX_ITEMS),
            default=[],
            filterable=False,
            checks={Verb.CREATE: NETWORK_OWNER, Verb.UPDATE: NETWORK_OWNER},
        ),
        read_only("shared", FLAG, filterable=True, shown=False),
        ApiAttribute(
            name="subnetpool_id",
            codec=Nullable(SUBNET_POOL),
            default=None,
            update=False,
            note="prefix_delegation: a provider delegates the prefix to the router.",
        ),
        ApiAttribute(
            name="use_default_subnetpool",
            codec=FLAG,
            default=False,
            update=False,
            filterable=False,
            shown=False,
            note="Instead of subnetpool_id.",
        ),
        ApiAttribute(
            name="prefixlen",
            codec=PREFIX_LENGTH,
            update=False,
            filterable=False,
            shown=False,
            note="With a subnet pool, instead of cidr.",
        ),
        read_only("dns_publish_fixed_ip", FLAG),
    ),
)

NETWORK_RESOURCES = (NETWORK, SEGMENT, SUBNET)
