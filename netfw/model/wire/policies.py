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
from netfw.model.wire.object_codec import NamedField, ObjectCodec, Tagged
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
    (IDENTITY, *NAMED, NamedField("stateful", BOOLEAN), NamedField("shared", BOOLEAN)),
)
_TRAFFIC_MATCH = (
    NamedField("direction", DIRECTION),
    NamedField("ethertype", choice(Ethertype, fold=True)),
    NamedField("protocol", PROTOCOL),
    NamedField("port_range_min", Nullable(NUMBER), "port_min"),
    NamedField("port_range_max", Nullable(NUMBER), "port_max"),
    NamedField("remote_ip_prefix", Nullable(CIDR), "remote_prefix"),
    NamedField("remote_address_group_id", Nullable(ID)),
)
SECURITY_GROUP_RULE = ObjectCodec(
    SecurityGroupRule,
    (
        IDENTITY,
        *OWNED,
        NamedField("security_group_id", ID),
        *_TRAFFIC_MATCH,
        NamedField("remote_group_id", Nullable(ID)),
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
        NamedField("remote_group_id", Nullable(Scalar(_parse_remote_group, str))),
        NamedField("used_in_default_sg", BOOLEAN),
        NamedField("used_in_non_default_sg", BOOLEAN),
    ),
)
ADDRESS_GROUP = ObjectCodec(
    AddressGroup,
    (
        IDENTITY,
        *NAMED,
        NamedField("addresses", Listed(PREFIX, frozenset, limit=MAX_ADDRESSES)),
        NamedField("shared", BOOLEAN),
    ),
)
PACKET_LOG = ObjectCodec(
    PacketLog,
    (
        IDENTITY,
        *NAMED,
        NamedField("resource_type", choice(LoggedResource)),
        NamedField("resource_id", Nullable(ID)),
        NamedField("target_id", Nullable(ID)),
        NamedField("event", choice(LogEvent)),
        NamedField("enabled", BOOLEAN),
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
                    NamedField("max_kbps", NUMBER),
                    NamedField("max_burst_kbps", NUMBER),
                    NamedField("direction", DIRECTION),
                ),
            ),
            "minimum_bandwidth": ObjectCodec(
                MinimumBandwidth,
                (IDENTITY, NamedField("min_kbps", NUMBER), NamedField("direction", DIRECTION)),
            ),
            "packet_rate_limit": ObjectCodec(
                PacketRateLimit,
                (
                    IDENTITY,
                    NamedField("max_kpps", NUMBER),
                    NamedField("max_burst_kpps", NUMBER),
                    NamedField("direction", DIRECTION),
                ),
            ),
            "minimum_packet_rate": ObjectCodec(
                MinimumPacketRate,
                (
                    IDENTITY,
                    NamedField("min_kpps", NUMBER),
                    NamedField("direction", choice(AnyDirection, fold=True)),
                ),
            ),
            "dscp_marking": ObjectCodec(DscpMarking, (IDENTITY, NamedField("dscp_mark", NUMBER))),
        }
    ),
)
QOS_POLICY = ObjectCodec(
    QosPolicy,
    (
        IDENTITY,
        *NAMED,
        NamedField("rules", Listed(QOS_RULE)),
        NamedField("shared", BOOLEAN),
        NamedField("is_default", BOOLEAN),
    ),
)
RBAC_POLICY = ObjectCodec(
    RbacPolicy,
    (
        IDENTITY,
        NamedField("project_id", TEXT),
        NamedField("tenant_id", TEXT, "project_id"),
        NamedField("object_type", TEXT),
        NamedField("object_id", ID),
        NamedField("action", choice(RbacAction)),
        NamedField("target_tenant", TEXT, "target_project"),
        NamedField("revision_number", REVISION, "revision"),
    ),
)
