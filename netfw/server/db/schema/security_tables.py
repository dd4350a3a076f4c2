"""Tables of security groups, rules, rules of new groups, address groups and packet logs."""

from __future__ import annotations

from netfw.model.resource import Kind
from netfw.server.db.schema.table_mapping import (
    flag_column,
    id_column,
    mapping,
    number_column,
    text_column,
)

_SECURITY_GROUP = (flag_column("stateful"), flag_column("shared"))
_TRAFFIC_MATCH = (
    text_column("direction"),
    text_column("ethertype"),
    text_column("protocol"),
    number_column("port_range_min"),
    number_column("port_range_max"),
    text_column("remote_ip_prefix"),
    id_column("remote_group_id"),
    id_column("remote_address_group_id"),
)
_SECURITY_GROUP_RULE = (
    id_column("security_group_id", refers="security_groups"),
    *_TRAFFIC_MATCH,
)
_DEFAULT_SECURITY_GROUP_RULE = (
    *_TRAFFIC_MATCH,
    flag_column("used_in_default_sg"),
    flag_column("used_in_non_default_sg"),
)
_ADDRESS_GROUP = (flag_column("shared"),)
_PACKET_LOG = (
    text_column("resource_type"),
    id_column("resource_id"),
    id_column("target_id"),
    text_column("event"),
    flag_column("enabled"),
)
SECURITY_TABLES = (
    mapping(Kind.SECURITY_GROUP, "security_groups", _SECURITY_GROUP),
    mapping(Kind.SECURITY_GROUP_RULE, "security_group_rules", _SECURITY_GROUP_RULE),
    mapping(
        Kind.DEFAULT_SECURITY_GROUP_RULE,
        "default_security_group_rules",
        _DEFAULT_SECURITY_GROUP_RULE,
    ),
    mapping(Kind.ADDRESS_GROUP, "address_groups", _ADDRESS_GROUP),
    mapping(Kind.PACKET_LOG, "packet_logs", _PACKET_LOG),
)
