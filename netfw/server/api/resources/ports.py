"""Ports and their bindings."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from netfw.model.binding import VnicType
from netfw.model.port import IpAllocation
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.ports import VIF_DETAILS
from netfw.model.wire.scalars import (
    DOCUMENT,
    HOST,
    HOST_OR_EMPTY,
    ID,
    MAC,
    PREFIX_OR_ADDRESS,
    TOKEN,
    VIF_TYPE,
    choice,
)
from netfw.server.api.resources.common import (
    ADMIN_STATE,
    DHCP_OPTIONS,
    FIXED_IPS,
    MAX_ITEMS,
    NAMED,
    STANDARD,
    STATUS_REASON,
    STATUS_SHOWN,
    read_only,
)
from netfw.server.api.schema.request_codecs import FLAG, Null, Record
from netfw.server.api.schema.resource_schema import (
    MEMBER,
    NETWORK_OWNER,
    READER,
    SERVICE,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)

_OWNERS = {Verb.CREATE: NETWORK_OWNER, Verb.UPDATE: NETWORK_OWNER}
_ON_SHARED = f"{NETWORK_OWNER} or True:%(network:shared)s"
_CREATE = (
    f"{MEMBER} and (not True:%(network:router:external)s or True:%(network:shared)s"
    f" or {NETWORK_OWNER} or {SERVICE})"
)
"""Members get addresses of external networks by floating IPs and router gateways only."""
_SERVICES = {Verb.CREATE: SERVICE, Verb.UPDATE: SERVICE, Verb.SHOW: SERVICE}
_DEVICES = f"not rule:network_device or {NETWORK_OWNER} or {SERVICE}"


def _once(ids: Iterable[UUID]) -> tuple[UUID, ...]:
    given = tuple(ids)
    if len(set(given)) < len(given):
        raise ValueError("one of them is there twice")
    return given


_PAIR = Record({"ip_address": PREFIX_OR_ADDRESS, "mac_address": MAC}, required=("ip_address",))
_VNIC = choice(VnicType)

PORT = ApiResource(
    name="port",
    collection="ports",
    checks={
        Verb.CREATE: _CREATE,
        Verb.SHOW: f"{READER} or {NETWORK_OWNER}",
        Verb.UPDATE: MEMBER,
        Verb.DELETE: f"{MEMBER} or {NETWORK_OWNER}",
    },
    parents={"network": "network_id"},
    tags=True,
    quota="port",
    attributes=(
        *STANDARD,
        NAMED,
        ApiAttribute(name="network_id", codec=ID, required=True, update=False, sortable=True),
        ADMIN_STATE,
        STATUS_SHOWN,
        STATUS_REASON,
        ApiAttribute(
            name="mac_address",
            codec=Nullable(MAC),
            sortable=True,
            checks=_OWNERS,
            note="Unless given one is made; null in an update makes a new one.",
        ),
        ApiAttribute(
            name="fixed_ips",
            codec=Null(FIXED_IPS),
            inner={
                "ip_address": _OWNERS,
                "subnet_id": {Verb.CREATE: _ON_SHARED, Verb.UPDATE: _ON_SHARED},
            },
            note="Unless given one address of each family; an empty list: none.",
        ),
        ApiAttribute(name="device_id", codec=TOKEN, default="", sortable=True),
        ApiAttribute(
            name="device_owner",
            codec=TOKEN,
            default="",
            sortable=True,
            checks={Verb.CREATE: _DEVICES, Verb.UPDATE: _DEVICES},
        ),
        ApiAttribute(
            name="security_groups",
            codec=Null(Listed(ID, _once, MAX_ITEMS), []),
            note="Unless given the project's default group.",
        ),
        ApiAttribute(
            name="allowed_address_pairs",
            codec=Null(Listed(_PAIR), []),
            default=[],
            filterable=False,
            checks=_OWNERS,
        ),
        ApiAttribute(name="extra_dhcp_opts", codec=DHCP_OPTIONS, default=[], filterable=False),
        ApiAttribute(
            name="binding:host_id", codec=Null(HOST_OR_EMPTY, ""), default="", checks=_SERVICES
        ),
        ApiAttribute(name="binding:vnic_type", codec=_VNIC, default="normal"),
        ApiAttribute(
            name="binding:profile",
            codec=Null(DOCUMENT, {}),
            default={},
            filterable=False,
            checks=_SERVICES,
        ),
        read_only("binding:vif_type", VIF_TYPE, filterable=True, checks={Verb.SHOW: SERVICE}),
        read_only("binding:vif_details", VIF_DETAILS, checks={Verb.SHOW: SERVICE}),
        read_only("ip_allocation", choice(IpAllocation), filterable=True),
        read_only("propagate_uplink_status", FLAG),
        read_only(
            "resource_request", Nullable(DOCUMENT), checks={Verb.SHOW: SERVICE}, needs="policy"
        ),
        read_only("trunk_details", DOCUMENT),
    ),
)

BINDING = ApiResource(
    name="binding",
    collection="bindings",
    parent="port",
    parent_attribute="port_id",
    identity="host",
    bulk=False,
    policy_name="port_binding",
    checks=dict.fromkeys(Verb, SERVICE),
    attributes=(
        ApiAttribute(name="host", codec=HOST, required=True, update=False),
        ApiAttribute(name="vnic_type", codec=_VNIC, default="normal"),
        ApiAttribute(name="profile", codec=Null(DOCUMENT, {}), default={}, filterable=False),
        read_only("vif_type", VIF_TYPE, filterable=True),
        read_only("vif_details", VIF_DETAILS),
        read_only("status", TOKEN, filterable=True),
        read_only("project_id", TOKEN),
        read_only("port_id", ID),
    ),
    actions=(
        ApiAction(
            name="activate",
            attributes=(
                ApiAttribute(
                    name="binding", codec=DOCUMENT, note="Not read; some clients send it."
                ),
            ),
            check=SERVICE,
            shows=True,
        ),
    ),
)
"""How a port is bound: to its ``binding:host_id``, and to hosts that are prepared for it."""

PORT_RESOURCES = (PORT, BINDING)
