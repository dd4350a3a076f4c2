"""Codecs that several tables share."""

from __future__ import annotations

from netfw.model.port import FixedIp
from netfw.model.security_group import Direction
from netfw.model.values.common_fields import Status
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.route import Route
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.object_codec import NamedField, ObjectCodec
from netfw.model.wire.scalars import (
    ADDRESS,
    BOOLEAN,
    DHCP_OPTION_NAME,
    DHCP_OPTION_VALUE,
    HOST,
    ID,
    IP_VERSION,
    PREFIX,
    REVISION,
    TAG,
    TEXT,
    TIME,
    choice,
)

STATUS = choice(Status)
DIRECTION = choice(Direction, fold=True)
IDS = Listed(ID, frozenset)
ZONES = Listed(HOST)

STANDARD = (
    NamedField("description", TEXT),
    NamedField("revision_number", REVISION, "revision"),
    NamedField("tags", Listed(TAG, frozenset)),
    NamedField("created_at", Nullable(TIME, silent=True)),
    NamedField("updated_at", Nullable(TIME, silent=True)),
)
OWNED = (
    NamedField("project_id", TEXT),
    NamedField("tenant_id", TEXT, "project_id"),
    *STANDARD,
)
NAMED = (NamedField("name", TEXT), *OWNED)
IDENTITY = NamedField("id", ID)
ADMIN_STATE = NamedField("admin_state_up", BOOLEAN, "admin_up")
QOS_POLICY_ID = NamedField("qos_policy_id", Nullable(ID))

DHCP_OPTION = ObjectCodec(
    DhcpOption,
    (
        NamedField("opt_name", DHCP_OPTION_NAME, "name"),
        NamedField("opt_value", DHCP_OPTION_VALUE, "value"),
        NamedField("ip_version", IP_VERSION),
    ),
)
FIXED_IP = ObjectCodec(
    FixedIp,
    (NamedField("subnet_id", ID), NamedField("ip_address", ADDRESS, "address")),
)
ROUTE = ObjectCodec(
    Route,
    (NamedField("destination", PREFIX), NamedField("nexthop", ADDRESS)),
)
