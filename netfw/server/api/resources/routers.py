"""Routers and floating IPs."""

from __future__ import annotations

from typing import Any

from netfw.errors.ndp_proxies import InvalidAddress
from netfw.errors.requests import BadRequest
from netfw.errors.routers import InvalidProtocolForHelper, InvalidRoutes
from netfw.model.floating_ip import ForwardedProtocol
from netfw.model.router import HelperProtocol
from netfw.model.wire.codec import Json, Listed, Nullable, Scalar, or_null
from netfw.model.wire.scalars import (
    ADDRESS,
    DNS_NAME,
    DOCUMENT,
    ID,
    PORT_NUMBER,
    PORT_RANGE,
    TEXT,
    choice,
)
from netfw.server.api.resources.common import (
    ADMIN_STATE,
    DESCRIPTION,
    FIXED_IPS,
    FOR_ADMINS,
    IDENTITY,
    NAMED,
    ONLY_ADMINS,
    OWN,
    REVISION_NUMBER,
    ROUTE,
    STANDARD,
    STATUS_REASON,
    STATUS_SHOWN,
    TIMES,
    ZONE_HINTS,
    ZONES_SHOWN,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, NAME, Null, Record
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    MEMBER,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)

_GATEWAY = Record(
    {
        "network_id": ID,
        "enable_snat": FLAG,
        "external_fixed_ips": FIXED_IPS,
        "qos_policy_id": Nullable(ID),
    },
    required=("network_id",),
)


def _parse_gateway(raw: object) -> dict[str, Json] | None:
    """Accept an empty object like null: it removes the gateway."""
    return None if raw is None or raw == {} else _GATEWAY.parse(raw)


def _as_it_is(value: Any) -> Any:
    return value


_ROUTES = Null(Listed(ROUTE), [])
_INTERFACE = (
    ApiAttribute(name="subnet_id", codec=ID, error=BadRequest),
    ApiAttribute(name="port_id", codec=ID, error=BadRequest),
)
_ROUTES_OF = (ApiAttribute(name="routes", codec=_ROUTES, error=InvalidRoutes, required=True),)

ROUTER = ApiResource(
    name="router",
    collection="routers",
    checks=OWN,
    tags=True,
    quota="router",
    attributes=(
        *STANDARD,
        NAMED,
        ADMIN_STATE,
        STATUS_SHOWN,
        STATUS_REASON,
        ApiAttribute(
            name="external_gateway_info",
            codec=Scalar(_parse_gateway, _as_it_is, or_null(_GATEWAY.schema)),
            default=None,
            filterable=False,
            inner={"enable_snat": FOR_ADMINS, "external_fixed_ips": FOR_ADMINS},
            note="An empty object, like null, takes the gateway away.",
        ),
        ApiAttribute(
            name="routes", codec=_ROUTES, error=InvalidRoutes, create=False, filterable=False
        ),
        ApiAttribute(name="ha", codec=FLAG, checks=ONLY_ADMINS),
        ApiAttribute(name="distributed", codec=FLAG, checks=ONLY_ADMINS),
        ZONE_HINTS,
        ZONES_SHOWN,
        ApiAttribute(
            name="flavor_id",
            codec=Nullable(ID),
            default=None,
            update=False,
            note="Decides whether the router is highly available and distributed.",
        ),
        ApiAttribute(
            name="enable_ndp_proxy",
            codec=Null(FLAG),
            needs="ndp_proxy",
            note="Unless given as enable_ndp_proxy_by_default, where the gateway can.",
        ),
        read_only("conntrack_helpers", Listed(DOCUMENT)),
    ),
    actions=(
        ApiAction(
            name="add_router_interface",
            attributes=_INTERFACE,
            exclusive=("subnet_id", "port_id"),
            check=MEMBER,
        ),
        ApiAction(name="remove_router_interface", attributes=_INTERFACE, check=MEMBER),
        ApiAction(
            name="add_extraroutes",
            attributes=_ROUTES_OF,
            check=MEMBER,
            envelope="router",
            shows=True,
        ),
        ApiAction(
            name="remove_extraroutes",
            attributes=_ROUTES_OF,
            check=MEMBER,
            envelope="router",
            shows=True,
        ),
    ),
)

FLOATING_IP = ApiResource(
    name="floatingip",
    collection="floatingips",
    checks=OWN,
    parents={"network": "floating_network_id"},
    tags=True,
    quota="floatingip",
    attributes=(
        *STANDARD,
        ApiAttribute(
            name="floating_network_id", codec=ID, required=True, update=False, sortable=True
        ),
        ApiAttribute(
            name="floating_ip_address",
            codec=Null(ADDRESS),
            update=False,
            sortable=True,
            checks={Verb.CREATE: ADMIN},
        ),
        ApiAttribute(
            name="subnet_id",
            codec=Null(ID),
            update=False,
            shown=False,
            filterable=False,
            note="Of the external network, from which the address is to be.",
        ),
        ApiAttribute(name="port_id", codec=Nullable(ID), default=None),
        ApiAttribute(name="fixed_ip_address", codec=Nullable(ADDRESS), default=None, sortable=True),
        read_only("router_id", Nullable(ID), filterable=True, sortable=True),
        STATUS_SHOWN,
        STATUS_REASON,
        read_only("dns_name", DNS_NAME),
        read_only("dns_domain", DNS_NAME),
        read_only("port_details", Nullable(DOCUMENT)),
        ApiAttribute(name="qos_policy_id", codec=Nullable(ID), default=None, needs="policy"),
        read_only("port_forwardings", Listed(DOCUMENT)),
    ),
)

_PARENT_MEMBER = f"{ADMIN} or (role:member and rule:ext_parent_owner)"
PORT_FORWARDING = ApiResource(
    name="port_forwarding",
    policy_name="floatingip_port_forwarding",
    collection="port_forwardings",
    parent="floatingip",
    parent_attribute="floatingip_id",
    checks={**OWN, Verb.CREATE: _PARENT_MEMBER},
    parents={"floatingip": "floatingip_id"},
    quota="port_forwarding",
    attributes=(
        IDENTITY,
        read_only("project_id", TEXT, filterable=True),
        read_only("tenant_id", TEXT, filterable=True),
        DESCRIPTION,
        REVISION_NUMBER,
        *TIMES,
        ApiAttribute(
            name="protocol",
            codec=choice(ForwardedProtocol, fold=True),
            required=True,
            sortable=True,
        ),
        ApiAttribute(
            name="external_port",
            codec=Null(PORT_NUMBER),
            sortable=True,
            note="Or external_port_range.",
        ),
        ApiAttribute(name="external_port_range", codec=Null(PORT_RANGE), sortable=True),
        ApiAttribute(
            name="internal_port",
            codec=Null(PORT_NUMBER),
            sortable=True,
            note="Or internal_port_range; one port for all external ports, or as many.",
        ),
        ApiAttribute(name="internal_port_range", codec=Null(PORT_RANGE), sortable=True),
        ApiAttribute(name="internal_port_id", codec=ID, required=True, sortable=True),
        ApiAttribute(
            name="internal_ip_address",
            codec=Null(ADDRESS),
            sortable=True,
            note="Unless given the only IPv4 address of the port.",
        ),
    ),
)

CONNTRACK_HELPER = ApiResource(
    name="conntrack_helper",
    policy_name="router_conntrack_helper",
    collection="conntrack_helpers",
    parent="router",
    parent_attribute="router_id",
    checks={
        Verb.CREATE: _PARENT_MEMBER,
        Verb.UPDATE: _PARENT_MEMBER,
        Verb.DELETE: _PARENT_MEMBER,
        Verb.SHOW: f"{ADMIN} or (role:reader and rule:ext_parent_owner)",
    },
    parents={"router": "router_id"},
    attributes=(
        IDENTITY,
        ApiAttribute(
            name="protocol",
            codec=choice(HelperProtocol, fold=True),
            error=InvalidProtocolForHelper,
            required=True,
            sortable=True,
        ),
        ApiAttribute(name="port", codec=PORT_NUMBER, required=True, sortable=True),
        ApiAttribute(
            name="helper",
            codec=TEXT,
            required=True,
            sortable=True,
            note="One of allowed_conntrack_helpers of the configuration.",
        ),
    ),
)

NDP_PROXY = ApiResource(
    name="ndp_proxy",
    collection="ndp_proxies",
    checks=OWN,
    attributes=(
        *STANDARD,
        ApiAttribute(name="name", codec=Null(NAME, ""), default="", sortable=True),
        ApiAttribute(name="router_id", codec=ID, required=True, update=False, sortable=True),
        ApiAttribute(name="port_id", codec=ID, required=True, update=False, sortable=True),
        ApiAttribute(
            name="ip_address",
            codec=Null(ADDRESS),
            error=InvalidAddress,
            update=False,
            sortable=True,
            note="Unless given the first IPv6 address of the port that the router reaches.",
        ),
    ),
)

ROUTER_RESOURCES = (ROUTER, FLOATING_IP, PORT_FORWARDING, CONNTRACK_HELPER, NDP_PROXY)
