"""Tables of ports."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from netfw.model.resource import Kind
from netfw.server.db.schema.columns import ADDRESS_LENGTH, TABLE_OPTIONS, text, word
from netfw.server.db.schema.qos_tables import PORT_POLICY
from netfw.server.db.schema.table_mapping import (
    METADATA,
    Relation,
    TableMapping,
    flag_column,
    id_column,
    owner_column,
    resource_table,
    text_column,
)

_PORT = (
    id_column("network_id", refers="networks", index=False),
    text_column("mac_address", index=True),
    text_column("device_id", index=True),
    text_column("device_owner"),
    text_column("binding:host_id", index=True),
    text_column("binding:vnic_type"),
    text_column("binding:vif_type"),
    text_column("status"),
    flag_column("admin_state_up"),
    flag_column("port_security_enabled"),
    text_column("ip_allocation"),
    text_column("dns_name"),
    id_column("qos_policy_id", index=False),
)
PORTS = resource_table("ports", _PORT, UniqueConstraint("network_id", "mac_address"))
PORT_ADDRESSES = Table(
    "port_addresses",
    METADATA,
    owner_column("port_id", "ports"),
    Column("subnet_id", word(), ForeignKey("subnets.id"), primary_key=True),
    Column("ip_address", word(ADDRESS_LENGTH), primary_key=True),
    UniqueConstraint("subnet_id", "ip_address"),
    Index(None, "ip_address"),
    **TABLE_OPTIONS,
)
PORT_GROUPS = Table(
    "port_groups",
    METADATA,
    owner_column("port_id", "ports"),
    Column("security_group_id", word(), ForeignKey("security_groups.id"), primary_key=True),
    Index(None, "security_group_id"),
    **TABLE_OPTIONS,
)
PORT_HOSTS = Table(
    "port_hosts",
    METADATA,
    owner_column("port_id", "ports"),
    Column("host", text(), primary_key=True),
    Index(None, "host"),
    **TABLE_OPTIONS,
)
"""The hosts of ports that are on several hosts at once."""
PORT_PREPARED_HOSTS = Table(
    "port_prepared_hosts",
    METADATA,
    owner_column("port_id", "ports"),
    Column("host", text(), primary_key=True),
    Index(None, "host"),
    **TABLE_OPTIONS,
)
"""The hosts that prepare for ports, which may be activated there."""
PORT_ADDRESS_PAIRS = Table(
    "port_address_pairs",
    METADATA,
    owner_column("port_id", "ports"),
    Column("network_id", word(), nullable=False),
    Column("prefix", word(ADDRESS_LENGTH), primary_key=True),
    Index(None, "network_id", "prefix"),
    **TABLE_OPTIONS,
)
"""The prefixes of allowed address pairs, with the network of their port."""
PORT_LOCAL_IPS = Table(
    "port_local_ips",
    METADATA,
    owner_column("port_id", "ports"),
    Column("local_ip_id", word(), primary_key=True),
    Index(None, "local_ip_id"),
    **TABLE_OPTIONS,
)
"""The local IPs that lead to ports."""


def _addresses(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((fixed["subnet_id"], fixed["ip_address"]) for fixed in body["fixed_ips"])


def _groups(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((group,) for group in body["security_groups"])


def _hosts(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((host,) for host in body.get("binding:hosts", ()))


def _prepared_hosts(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((host,) for host in body.get("binding:prepared_hosts", ()))


def _address_pairs(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    prefixes = (ip_network(pair["ip_address"]) for pair in body["allowed_address_pairs"])
    return frozenset((body["network_id"], str(prefix)) for prefix in prefixes)


def _local_ips(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((each["local_ip_id"],) for each in body.get("local_ips", ()))


PORT_TABLES = (
    TableMapping(
        kind=Kind.PORT,
        table=PORTS,
        fields=_PORT,
        relations=(
            Relation(table=PORT_ADDRESSES, rows=_addresses),
            Relation(table=PORT_GROUPS, rows=_groups),
            Relation(table=PORT_HOSTS, rows=_hosts),
            Relation(table=PORT_PREPARED_HOSTS, rows=_prepared_hosts),
            Relation(table=PORT_ADDRESS_PAIRS, rows=_address_pairs),
            Relation(table=PORT_LOCAL_IPS, rows=_local_ips),
            PORT_POLICY,
        ),
    ),
)
