"""Tables of networks, segments and subnets."""

from __future__ import annotations

from sqlalchemy import Index

from netfw.model.resource import Kind
from netfw.server.db.schema.qos_tables import NETWORK_POLICY
from netfw.server.db.schema.table_mapping import (
    flag_column,
    id_column,
    mapping,
    number_column,
    text_column,
)

_NETWORK = (
    text_column("status"),
    flag_column("admin_state_up"),
    flag_column("shared"),
    flag_column("router:external"),
    flag_column("is_default"),
    number_column("mtu"),
    id_column("qos_policy_id", index=False),
    flag_column("port_security_enabled"),
)
_SEGMENT = (
    id_column("network_id", refers="networks"),
    text_column("network_type"),
    text_column("physical_network"),
    number_column("segmentation_id"),
)
_SUBNET = (
    id_column("network_id", refers="networks"),
    text_column("cidr"),
    number_column("ip_version"),
    text_column("gateway_ip"),
    flag_column("enable_dhcp"),
    text_column("ipv6_ra_mode"),
    text_column("ipv6_address_mode"),
    id_column("segment_id", index=False),
    id_column("subnetpool_id", index=False),
)
_SUBNETS = mapping(Kind.SUBNET, "subnets", _SUBNET)
Index(None, _SUBNETS.table.c.subnetpool_id, _SUBNETS.table.c.project_id)
_SEGMENTS = mapping(Kind.SEGMENT, "segments", _SEGMENT)
Index(
    None,
    _SEGMENTS.table.c.network_type,
    _SEGMENTS.table.c.physical_network,
    _SEGMENTS.table.c.segmentation_id,
)
NETWORK_TABLES = (
    mapping(Kind.NETWORK, "networks", _NETWORK, relations=(NETWORK_POLICY,)),
    _SEGMENTS,
    _SUBNETS,
)
