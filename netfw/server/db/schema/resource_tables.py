"""Which attributes of which resource are columns, beside the document that holds them all.

A column is what a filter, an order or a constraint needs.  All other attributes are in ``body``
alone.  Sets of an attribute (a port's addresses, its groups) are rows of a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_network
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen
from sqlalchemy import Boolean, Column, ForeignKey, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.types import TypeEngine

from netfw.errors import NotSupported
from netfw.model.resource import Kind
from netfw.server.db.schema.columns import (
    ADDRESS_LENGTH,
    TABLE_OPTIONS,
    document,
    number,
    text,
    word,
)

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


@frozen(kw_only=True)
class ColumnMapping:
    """The column of an attribute of the API."""

    attribute: str
    path: tuple[str, ...]
    """Path of the attribute within the body."""
    type: TypeEngine[Any]
    refers: str | None = None
    indexed: bool = False

    @property
    def column(self) -> str:
        return self.attribute.replace(":", "_")

    def value(self, body: Mapping[str, Any]) -> Any:
        """Return the value of the column for the resource *body*."""
        value: Any = body
        for step in self.path:
            value = None if value is None else value.get(step)
        return value

    def make_column(self) -> Column[Any]:
        keys = () if self.refers is None else (ForeignKey(f"{self.refers}.id"),)
        return Column(self.column, self.type, *keys, nullable=True)


Rows = Callable[[Mapping[str, Any]], frozenset[tuple[Any, ...]]]
"""Returns the rows of a body, without the id of the resource."""


@frozen(kw_only=True)
class Relation:
    """A table with several rows per resource, which are deleted with it."""

    table: Table
    rows: Rows

    @property
    def owner(self) -> str:
        """The first column, which has the id of the resource."""
        return str(next(iter(self.table.columns)).name)


@frozen(kw_only=True)
class TableMapping:
    """The tables of one kind."""

    kind: Kind
    table: Table
    fields: tuple[ColumnMapping, ...]
    relations: tuple[Relation, ...] = ()
    columns: Mapping[str, Column[Any]] = field(init=False)
    """Columns by the attribute of the API."""

    @columns.default
    def _columns(self) -> Mapping[str, Column[Any]]:
        own = {each.attribute: self.table.columns[each.column] for each in (*COMMON, *self.fields)}
        return MappingProxyType(
            {**own, "id": self.table.columns.id, "tenant_id": self.table.columns.project_id}
        )


def _field(
    attribute: str,
    type: TypeEngine[Any],
    *path: str,
    refers: str | None = None,
    index: bool = False,
) -> ColumnMapping:
    where = path or (attribute,)
    return ColumnMapping(attribute=attribute, path=where, type=type, refers=refers, indexed=index)


def _text(attribute: str, *path: str, index: bool = False) -> ColumnMapping:
    return _field(attribute, text(), *path, index=index)


def _id(attribute: str, *path: str, refers: str | None = None, index: bool = True) -> ColumnMapping:
    return _field(attribute, word(), *path, refers=refers, index=index)


def _flag(attribute: str) -> ColumnMapping:
    return _field(attribute, Boolean(create_constraint=False))


def _number(attribute: str) -> ColumnMapping:
    return _field(attribute, number())


COMMON: Final = (
    _text("project_id"),
    _text("name", index=True),
    _text("description"),
    _number("revision_number"),
    _field("created_at", word()),
    _field("updated_at", word()),
)


def _table(name: str, fields: tuple[ColumnMapping, ...], *constraints: UniqueConstraint) -> Table:
    """Lists are of one project, in the order of ids, unless somebody asks for more."""
    indexed = [each for each in (*COMMON, *fields) if each.indexed]
    return Table(
        name,
        METADATA,
        Column("id", word(), primary_key=True),
        *(each.make_column() for each in COMMON),
        *(each.make_column() for each in fields),
        Column("body", document(), nullable=False),
        Column("extra", document(), nullable=False),
        *constraints,
        Index(None, "project_id", "id"),
        *(Index(None, each.column) for each in indexed),
        **TABLE_OPTIONS,
    )


_NETWORK = (
    _text("status"),
    _flag("admin_state_up"),
    _flag("shared"),
    _flag("router:external"),
    _flag("is_default"),
    _number("mtu"),
    _id("qos_policy_id", index=False),
    _flag("port_security_enabled"),
)
_SEGMENT = (
    _id("network_id", refers="networks"),
    _text("network_type"),
    _text("physical_network"),
    _number("segmentation_id"),
)
_SUBNET = (
    _id("network_id", refers="networks"),
    _text("cidr"),
    _number("ip_version"),
    _text("gateway_ip"),
    _flag("enable_dhcp"),
    _text("ipv6_ra_mode"),
    _text("ipv6_address_mode"),
    _id("segment_id", index=False),
    _id("subnetpool_id", index=False),
)
_PORT = (
    _id("network_id", refers="networks", index=False),
    _text("mac_address", index=True),
    _text("device_id", index=True),
    _text("device_owner"),
    _text("binding:host_id", index=True),
    _text("binding:vnic_type"),
    _text("binding:vif_type"),
    _text("status"),
    _flag("admin_state_up"),
    _flag("port_security_enabled"),
    _text("ip_allocation"),
    _text("dns_name"),
    _id("qos_policy_id", index=False),
)
_ROUTER = (
    _text("status"),
    _flag("admin_state_up"),
    _flag("ha"),
    _flag("distributed"),
    _id("flavor_id", index=False),
    _id("gateway_network_id", "external_gateway_info", "network_id"),
)
_FLOATING_IP = (
    _id("floating_network_id", refers="networks", index=False),
    _text("floating_ip_address", index=True),
    _id("port_id"),
    _text("fixed_ip_address"),
    _id("router_id"),
    _text("host", index=True),
    _text("status"),
    _id("qos_policy_id", index=False),
)
_PORT_FORWARDING = (
    _id("floatingip_id", refers="floating_ips"),
    _text("protocol"),
    _number("external_port"),
    _text("external_port_range"),
    _number("internal_port"),
    _text("internal_port_range"),
    _id("internal_port_id"),
    _text("internal_ip_address"),
)
_SECURITY_GROUP = (_flag("stateful"), _flag("shared"))
_SECURITY_GROUP_RULE = (
    _id("security_group_id", refers="security_groups"),
    _text("direction"),
    _text("ethertype"),
    _text("protocol"),
    _number("port_range_min"),
    _number("port_range_max"),
    _text("remote_ip_prefix"),
    _id("remote_group_id"),
    _id("remote_address_group_id"),
)
_ADDRESS_GROUP = (_flag("shared"),)
_AGENT = (
    _text("agent_type"),
    _text("binary"),
    _text("host", index=True),
    _text("topic"),
    _flag("admin_state_up"),
    _text("availability_zone"),
)


def _member(name: str, owner: str) -> Column[Any]:
    """The column of a relation that names the resource whose rows they are."""
    return Column(name, word(), ForeignKey(f"{owner}.id", ondelete="CASCADE"), primary_key=True)


PORTS = _table("ports", _PORT, UniqueConstraint("network_id", "mac_address"))
PORT_ADDRESSES = Table(
    "port_addresses",
    METADATA,
    _member("port_id", "ports"),
    Column("subnet_id", word(), ForeignKey("subnets.id"), primary_key=True),
    Column("ip_address", word(ADDRESS_LENGTH), primary_key=True),
    UniqueConstraint("subnet_id", "ip_address"),
    Index(None, "ip_address"),
    **TABLE_OPTIONS,
)
PORT_GROUPS = Table(
    "port_groups",
    METADATA,
    _member("port_id", "ports"),
    Column("security_group_id", word(), ForeignKey("security_groups.id"), primary_key=True),
    Index(None, "security_group_id"),
    **TABLE_OPTIONS,
)
PORT_HOSTS = Table(
    "port_hosts",
    METADATA,
    _member("port_id", "ports"),
    Column("host", text(), primary_key=True),
    Index(None, "host"),
    **TABLE_OPTIONS,
)
"""The hosts of ports that are on several hosts at once."""
PORT_PREPARED_HOSTS = Table(
    "port_prepared_hosts",
    METADATA,
    _member("port_id", "ports"),
    Column("host", text(), primary_key=True),
    Index(None, "host"),
    **TABLE_OPTIONS,
)
"""The hosts that prepare for ports, which may be activated there."""
PORT_ADDRESS_PAIRS = Table(
    "port_address_pairs",
    METADATA,
    _member("port_id", "ports"),
    Column("network_id", word(), nullable=False),
    Column("prefix", word(ADDRESS_LENGTH), primary_key=True),
    Index(None, "network_id", "prefix"),
    **TABLE_OPTIONS,
)
"""The prefixes of allowed address pairs, with the network of their port."""
TAGS = Table(
    "tags",
    METADATA,
    Column("resource_id", word(), primary_key=True),
    Column("tag", text(), primary_key=True),
    Index(None, "tag"),
    **TABLE_OPTIONS,
)


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


def _mapping(
    kind: Kind, name: str, fields: tuple[ColumnMapping, ...], *unique: str
) -> TableMapping:
    constraints = (UniqueConstraint(*unique),) if unique else ()
    return TableMapping(kind=kind, table=_table(name, fields, *constraints), fields=fields)


_MAPPINGS = (
    _mapping(Kind.NETWORK, "networks", _NETWORK),
    _mapping(Kind.SEGMENT, "segments", _SEGMENT),
    _mapping(Kind.SUBNET, "subnets", _SUBNET),
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
        ),
    ),
    _mapping(Kind.ROUTER, "routers", _ROUTER),
    _mapping(
        Kind.FLOATING_IP,
        "floating_ips",
        _FLOATING_IP,
        "floating_network_id",
        "floating_ip_address",
    ),
    _mapping(Kind.PORT_FORWARDING, "port_forwardings", _PORT_FORWARDING),
    _mapping(Kind.SECURITY_GROUP, "security_groups", _SECURITY_GROUP),
    _mapping(Kind.SECURITY_GROUP_RULE, "security_group_rules", _SECURITY_GROUP_RULE),
    _mapping(Kind.ADDRESS_GROUP, "address_groups", _ADDRESS_GROUP),
    _mapping(Kind.AGENT, "agents", _AGENT, "agent_type", "host"),
)
STORED: Final[Mapping[Kind, TableMapping]] = MappingProxyType(
    {each.kind: each for each in _MAPPINGS}
)


def table_mapping(kind: Kind) -> TableMapping:
    """Return the tables of *kind*.

    :raises NotSupported: the database does not store it.
    """
    try:
        return STORED[kind]
    except KeyError:
        raise NotSupported(f"this database does not store resources of kind {kind}") from None
