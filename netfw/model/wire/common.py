"""Codecs that several tables share."""

from __future__ import annotations

from netfw.model.port import FixedIp
from netfw.model.security_group import Direction
from netfw.model.values.common_fields import Status
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.route import Route
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.object_codec import Attribute, ObjectCodec
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
    Attribute("description", TEXT),
    Attribute("revision_number", REVISION, "revision"),
    Attribute("tags", Listed(TAG, frozenset)),
    Attribute("created_at", Nullable(TIME, silent=True)),
    Attribute("updated_at", Nullable(TIME, silent=True)),
)
OWNED = (
    Attribute("project_id", TEXT),
    Attribute("tenant_id", TEXT, "project_id"),
    *STANDARD,
)
NAMED = (Attribute("name", TEXT), *OWNED)
IDENTITY = Attribute("id", ID)
ADMIN_STATE = Attribute("admin_state_up", BOOLEAN, "admin_up")
QOS_POLICY_ID = Attribute("qos_policy_id", Nullable(ID))

DHCP_OPTION = ObjectCodec(
    DhcpOption,
    (
        Attribute("opt_name", DHCP_OPTION_NAME, "name"),
        Attribute("opt_value", DHCP_OPTION_VALUE, "value"),
        Attribute("ip_version", IP_VERSION),
    ),
)
FIXED_IP = ObjectCodec(
    FixedIp,
    (Attribute("subnet_id", ID), Attribute("ip_address", ADDRESS, "address")),
)
ROUTE = ObjectCodec(
    Route,
    (Attribute("destination", PREFIX), Attribute("nexthop", ADDRESS)),
)
