"""Groups, packet logs, QoS and RBAC policies as the API writes them."""

from __future__ import annotations

from types import MappingProxyType

from netfw.model.packet_log import LogEvent, LoggedResource, PacketLog
from netfw.model.qos import (
    AnyDirection,
    BandwidthLimit,
    DscpMarking,
    MinimumBandwidth,
    MinimumPacketRate,
    PacketRateLimit,
    QosPolicy,
)
from netfw.model.rbac_policy import RbacAction, RbacPolicy
from netfw.model.security_group import (
    MAX_ADDRESSES,
    PARENT,
    AddressGroup,
    DefaultSecurityGroupRule,
    Ethertype,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.wire.codec import Listed, Nullable, Scalar
from netfw.model.wire.common import DIRECTION, IDENTITY, NAMED, OWNED
from netfw.model.wire.object_codec import Attribute, ObjectCodec, Tagged
from netfw.model.wire.scalars import (
    BOOLEAN,
    CIDR,
    ID,
    NUMBER,
    PREFIX,
    PROTOCOL,
    REVISION,
    TEXT,
    choice,
)

SECURITY_GROUP = ObjectCodec(
    SecurityGroup,
    (IDENTITY, *NAMED, Attribute("stateful", BOOLEAN), Attribute("shared", BOOLEAN)),
)
_TRAFFIC_MATCH = (
    Attribute("direction", DIRECTION),
    Attribute("ethertype", choice(Ethertype, fold=True)),
    Attribute("protocol", PROTOCOL),
    Attribute("port_range_min", Nullable(NUMBER), "port_min"),
    Attribute("port_range_max", Nullable(NUMBER), "port_max"),
    Attribute("remote_ip_prefix", Nullable(CIDR), "remote_prefix"),
    Attribute("remote_address_group_id", Nullable(ID)),
)
SECURITY_GROUP_RULE = ObjectCodec(
    SecurityGroupRule,
    (
        IDENTITY,
        *OWNED,
        Attribute("security_group_id", ID),
        *_TRAFFIC_MATCH,
        Attribute("remote_group_id", Nullable(ID)),
    ),
)


def _parse_remote_group(raw: object) -> object:
    return PARENT if raw == PARENT else ID.parse(raw)


DEFAULT_SECURITY_GROUP_RULE = ObjectCodec(
    DefaultSecurityGroupRule,
    (
        IDENTITY,
        *OWNED,
        *_TRAFFIC_MATCH,
        Attribute("remote_group_id", Nullable(Scalar(_parse_remote_group, str))),
        Attribute("used_in_default_sg", BOOLEAN),
        Attribute("used_in_non_default_sg", BOOLEAN),
    ),
)
ADDRESS_GROUP = ObjectCodec(
    AddressGroup,
    (
        IDENTITY,
        *NAMED,
        Attribute("addresses", Listed(PREFIX, frozenset, limit=MAX_ADDRESSES)),
        Attribute("shared", BOOLEAN),
    ),
)
PACKET_LOG = ObjectCodec(
    PacketLog,
    (
        IDENTITY,
        *NAMED,
        Attribute("resource_type", choice(LoggedResource)),
        Attribute("resource_id", Nullable(ID)),
        Attribute("target_id", Nullable(ID)),
        Attribute("event", choice(LogEvent)),
        Attribute("enabled", BOOLEAN),
    ),
)
QOS_RULE = Tagged(
    "type",
    MappingProxyType(
        {
            "bandwidth_limit": ObjectCodec(
                BandwidthLimit,
                (
                    IDENTITY,
                    Attribute("max_kbps", NUMBER),
                    Attribute("max_burst_kbps", NUMBER),
                    Attribute("direction", DIRECTION),
                ),
            ),
            "minimum_bandwidth": ObjectCodec(
                MinimumBandwidth,
                (IDENTITY, Attribute("min_kbps", NUMBER), Attribute("direction", DIRECTION)),
            ),
            "packet_rate_limit": ObjectCodec(
                PacketRateLimit,
                (
                    IDENTITY,
                    Attribute("max_kpps", NUMBER),
                    Attribute("max_burst_kpps", NUMBER),
                    Attribute("direction", DIRECTION),
                ),
            ),
            "minimum_packet_rate": ObjectCodec(
                MinimumPacketRate,
                (
                    IDENTITY,
                    Attribute("min_kpps", NUMBER),
                    Attribute("direction", choice(AnyDirection, fold=True)),
                ),
            ),
            "dscp_marking": ObjectCodec(DscpMarking, (IDENTITY, Attribute("dscp_mark", NUMBER))),
        }
    ),
)
QOS_POLICY = ObjectCodec(
    QosPolicy,
    (
        IDENTITY,
        *NAMED,
        Attribute("rules", Listed(QOS_RULE)),
        Attribute("shared", BOOLEAN),
        Attribute("is_default", BOOLEAN),
    ),
)
RBAC_POLICY = ObjectCodec(
    RbacPolicy,
    (
        IDENTITY,
        Attribute("project_id", TEXT),
        Attribute("tenant_id", TEXT, "project_id"),
        Attribute("object_type", TEXT),
        Attribute("object_id", ID),
        Attribute("action", choice(RbacAction)),
        Attribute("target_tenant", TEXT, "target_project"),
        Attribute("revision_number", REVISION, "revision"),
    ),
)
