"""The first tables."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DOCUMENTS = {
    "networks": "status:text admin_state_up:flag shared:flag router_external:flag is_default:flag "
    "mtu:number qos_policy_id:id",
    "routers": "status:text admin_state_up:flag ha:flag distributed:flag flavor_id:id "
    "gateway_network_id:id+",
    "security_groups": "stateful:flag shared:flag",
    "address_groups": "shared:flag",
    "agents": "agent_type:text binary:text host:text+ topic:text admin_state_up:flag "
    "availability_zone:text",
    "segments": "network_id:networks+ network_type:text physical_network:text "
    "segmentation_id:number",
    "subnets": "network_id:networks+ cidr:text ip_version:number gateway_ip:text enable_dhcp:flag "
    "ipv6_ra_mode:text ipv6_address_mode:text segment_id:id subnetpool_id:id",
    "ports": "network_id:networks mac_address:text+ device_id:text+ device_owner:text "
    "binding_host_id:text+ binding_vnic_type:text binding_vif_type:text status:text "
    "admin_state_up:flag port_security_enabled:flag ip_allocation:text dns_name:text "
    "qos_policy_id:id",
    "floating_ips": "floating_network_id:networks floating_ip_address:text+ port_id:id+ "
    "fixed_ip_address:text router_id:id+ status:text qos_policy_id:id",
    "security_group_rules": "security_group_id:security_groups+ direction:text ethertype:text "
    "protocol:text port_range_min:number port_range_max:number remote_ip_prefix:text "
    "remote_group_id:id+ remote_address_group_id:id+",
}
"""Each column with its type, or the table that it refers to; + is an index."""

UNIQUE = {
    "agents": ("agent_type", "host"),
    "ports": ("network_id", "mac_address"),
    "floating_ips": ("floating_network_id", "floating_ip_address"),
}
OTHERS = (
    "assignments",
    "default_groups",
    "heartbeats",
    "interests",
    "journal",
    "journal_head",
    "quotas",
    "free_ranges",
    "offers",
    "pools",
    "tags",
    "port_groups",
    "port_addresses",
)


def upgrade() -> None:
    for name, columns in DOCUMENTS.items():
        _documents(name, columns.split())
    _relations()
    _pools()
    _counters()
    _journal()
    _choices()


def downgrade() -> None:
    for name in (*OTHERS, *reversed(DOCUMENTS)):
        op.drop_table(name)


def _documents(name: str, columns: list[str]) -> None:
    made, indexed = [], [("project_id", "id"), ("name",)]
    for each in columns:
        column, _, kind = each.rstrip("+").partition(":")
        made.append(_column(name, column, kind))
        if each.endswith("+"):
            indexed.append((column,))
    unique = UNIQUE.get(name)
    op.create_table(
        name,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        *made,
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        *([sa.UniqueConstraint(*unique, name=f"uq_{name}_{'_'.join(unique)}")] if unique else []),
        **TABLE_OPTIONS,
    )
    for names in indexed:
        _index(name, *names)


def _column(table: str, name: str, kind: str) -> sa.Column[Any]:
    types: dict[str, sa.types.TypeEngine[Any]] = {
        "text": text(),
        "id": word(),
        "flag": sa.Boolean(),
        "number": number(),
    }
    if kind in types:
        return sa.Column(name, types[kind])
    key = sa.ForeignKey(f"{kind}.id", name=f"fk_{table}_{name}")
    return sa.Column(name, word(), key)


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def _table(name: str, key: str, *parts: sa.schema.SchemaItem) -> None:
    constraint = sa.PrimaryKeyConstraint(*key.split(), name=f"pk_{name}")
    op.create_table(name, *parts, constraint, **TABLE_OPTIONS)


def _owner(table: str, column: str, owner: str) -> sa.Column[Any]:
    key = sa.ForeignKey(f"{owner}.id", name=f"fk_{table}_{column}", ondelete="CASCADE")
    return sa.Column(column, word(), key, nullable=False)


def _relations() -> None:
    _table(
        "port_addresses",
        "port_id subnet_id ip_address",
        _owner("port_addresses", "port_id", "ports"),
        sa.Column(
            "subnet_id",
            word(),
            sa.ForeignKey("subnets.id", name="fk_port_addresses_subnet_id"),
            nullable=False,
        ),
        sa.Column("ip_address", word(45), nullable=False),
        sa.UniqueConstraint(
            "subnet_id", "ip_address", name="uq_port_addresses_subnet_id_ip_address"
        ),
    )
    _index("port_addresses", "ip_address")
    _table(
        "port_groups",
        "port_id security_group_id",
        _owner("port_groups", "port_id", "ports"),
        sa.Column(
            "security_group_id",
            word(),
            sa.ForeignKey("security_groups.id", name="fk_port_groups_security_group_id"),
            nullable=False,
        ),
    )
    _index("port_groups", "security_group_id")
    _table(
        "tags",
        "resource_id tag",
        sa.Column("resource_id", word(), nullable=False),
        sa.Column("tag", text(), nullable=False),
    )
    _index("tags", "tag")


def _pools() -> None:
    _table(
        "pools",
        "pool",
        sa.Column("pool", text(), nullable=False),
        sa.Column("lowest", word(32), nullable=False),
        sa.Column("highest", word(32), nullable=False),
    )
    _table(
        "offers",
        "pool first",
        sa.Column("pool", text(), nullable=False),
        sa.Column("first", word(32), nullable=False),
        sa.Column("last", word(32), nullable=False),
    )
    _table(
        "free_ranges",
        "pool first",
        sa.Column("pool", text(), nullable=False),
        sa.Column("first", word(32), nullable=False),
        sa.Column("last", word(32), nullable=False),
        sa.Column("offered", sa.Boolean(), nullable=False),
    )
    _index("free_ranges", "pool", "last")
    _index("free_ranges", "pool", "offered", "first")


def _counters() -> None:
    _table(
        "quotas",
        "project_id resource",
        sa.Column("project_id", text(), nullable=False),
        sa.Column("resource", text(64), nullable=False),
        sa.Column("used", number(), nullable=False),
        sa.Column("allowed", number()),
    )
    _table(
        "heartbeats",
        "agent_id",
        sa.Column("agent_id", word(), nullable=False),
        sa.Column("at", number(), nullable=False),
    )


def _journal() -> None:
    columns = (
        sa.Column("one", number(), nullable=False, autoincrement=False),
        sa.Column("epoch", word(), nullable=False),
        sa.Column("seq", number(), nullable=False),
        sa.Column("oldest", number(), nullable=False),
    )
    _table("journal_head", "one", *columns)
    head = sa.table("journal_head", *(sa.column(str(column.name)) for column in columns))
    op.bulk_insert(head, [{"one": 1, "epoch": uuid4().hex, "seq": 0, "oldest": 0}])
    _table(
        "journal",
        "seq topic kind resource_id",
        sa.Column("seq", number(), nullable=False, autoincrement=False),
        sa.Column("topic", text(300), nullable=False),
        sa.Column("kind", word(), nullable=False),
        sa.Column("resource_id", word(), nullable=False),
        sa.Column("at", number(), nullable=False),
    )
    _index("journal", "topic", "seq")
    _table(
        "interests",
        "reader topic",
        sa.Column("reader", text(300), nullable=False),
        sa.Column("topic", text(300), nullable=False),
        sa.Column("uses", number(), nullable=False),
        sa.Column("since", number(), nullable=False),
        sa.Column("ended", number()),
    )
    _index("interests", "topic")


def _choices() -> None:
    _table(
        "default_groups",
        "project_id",
        sa.Column("project_id", text(), nullable=False),
        _owner("default_groups", "security_group_id", "security_groups"),
    )
    _table(
        "assignments",
        "service host resource_id",
        sa.Column("service", word(), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.Column("resource_id", word(), nullable=False),
        sa.Column("kind", word(), nullable=False),
    )
    _index("assignments", "resource_id")
