"""Tables besides those of resources: pools, quotas, journal, subscriptions, agents, outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Boolean, Column, ForeignKey, Index, Table, UniqueConstraint

from netfw.drivers.values.subscription import Service
from netfw.server.db.schema.columns import (
    ADDRESS_LENGTH,
    DIGEST_LENGTH,
    NUMBER_LENGTH,
    TABLE_OPTIONS,
    TOPIC_LENGTH,
    document,
    number,
    text,
    word,
)
from netfw.server.db.schema.table_mapping import METADATA

POOLS: Final = Table(
    "pools",
    METADATA,
    Column("pool", text(), primary_key=True),
    Column("lowest", word(NUMBER_LENGTH), nullable=False),
    Column("highest", word(NUMBER_LENGTH), nullable=False),
    **TABLE_OPTIONS,
)
"""The ids that exist in a pool, whether allocated automatically or only on request."""

OFFERS: Final = Table(
    "offers",
    METADATA,
    Column("pool", text(), primary_key=True),
    Column("first", word(NUMBER_LENGTH), primary_key=True),
    Column("last", word(NUMBER_LENGTH), nullable=False),
    **TABLE_OPTIONS,
)
"""The ranges of a pool that ids are allocated from automatically."""

FREE_RANGES: Final = Table(
    "free_ranges",
    METADATA,
    Column("pool", text(), primary_key=True),
    Column("first", word(NUMBER_LENGTH), primary_key=True),
    Column("last", word(NUMBER_LENGTH), nullable=False),
    Column("offered", Boolean(create_constraint=False), nullable=False),
    Index(None, "pool", "last"),
    Index(None, "pool", "offered", "first"),
    **TABLE_OPTIONS,
)
"""The free ids of a pool, as disjoint ranges; an offered one may be divided into adjacent ranges.
All other ids are allocated."""

QUOTAS: Final = Table(
    "quotas",
    METADATA,
    Column("project_id", text(), primary_key=True),
    Column("resource", text(64), primary_key=True),
    Column("used", number(), nullable=False),
    Column("allowed", number(), nullable=True),
    **TABLE_OPTIONS,
)

JOURNAL_HEAD: Final = Table(
    "journal_head",
    METADATA,
    Column("one", number(), primary_key=True, autoincrement=False),
    Column("epoch", word(), nullable=False),
    Column("seq", number(), nullable=False),
    Column("oldest", number(), nullable=False),
    **TABLE_OPTIONS,
)
"""One row: the newest commit, and the oldest one after which the journal is complete."""

JOURNAL: Final = Table(
    "journal",
    METADATA,
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("topic", text(TOPIC_LENGTH), primary_key=True),
    Column("kind", word(), primary_key=True),
    Column("resource_id", word(), primary_key=True),
    Column("at", number(), nullable=False),
    Index(None, "topic", "seq"),
    **TABLE_OPTIONS,
)

SUBSCRIPTIONS: Final = Table(
    "subscriptions",
    METADATA,
    Column("reader", text(TOPIC_LENGTH), primary_key=True),
    Column("topic", text(TOPIC_LENGTH), primary_key=True),
    Column("uses", number(), nullable=False),
    Column("since", number(), nullable=False),
    Column("ended", number(), nullable=True),
    Index(None, "topic"),
    **TABLE_OPTIONS,
)
"""The topics that a reader follows, with a reference count, and the commit since which."""

HEARTBEATS: Final = Table(
    "heartbeats",
    METADATA,
    Column("agent_id", word(), primary_key=True),
    Column("at", number(), nullable=False),
    Column("started", number(), nullable=True),
    Column("state_digest", word(DIGEST_LENGTH), nullable=False),
    Column("counts", document(), nullable=False),
    **TABLE_OPTIONS,
)
"""The last heartbeat of an agent, in milliseconds of the database's clock, and values that change
too often to be changes of the agent."""

DEFAULT_SECURITY_GROUPS: Final = Table(
    "default_security_groups",
    METADATA,
    Column("project_id", text(), primary_key=True),
    Column(
        "security_group_id",
        word(),
        ForeignKey("security_groups.id", ondelete="CASCADE"),
        nullable=False,
    ),
    **TABLE_OPTIONS,
)
"""The default security group of each project."""

ASSIGNMENTS: Final = Table(
    "assignments",
    METADATA,
    Column("service", word(), primary_key=True),
    Column("host", text(), primary_key=True),
    Column("resource_id", word(), primary_key=True),
    Column("kind", word(), nullable=False),
    Index(None, "resource_id"),
    **TABLE_OPTIONS,
)
"""Networks and routers that are scheduled to a service of a host."""


def _excluded_hosts(name: str, resources: str) -> Table:
    resource = ForeignKey(f"{resources}.id", ondelete="CASCADE")
    return Table(
        name,
        METADATA,
        Column("resource_id", word(), resource, primary_key=True),
        Column("host", text(), primary_key=True),
        **TABLE_OPTIONS,
    )


EXCLUDED_HOSTS: Final[Mapping[Service, Table]] = {
    Service.DHCP: _excluded_hosts("excluded_dhcp_hosts", "networks"),
    Service.L3: _excluded_hosts("excluded_l3_hosts", "routers"),
}
"""Networks and routers that are not to be scheduled to a service of a host, as requested."""

VENDOR_RESOURCES: Final = Table(
    "vendor_resources",
    METADATA,
    Column("resource", text(64), primary_key=True),
    Column("id", word(), primary_key=True),
    Column("project_id", text(), nullable=False),
    Column("name", text(), nullable=False),
    Column("parent_id", text(), nullable=True),
    Column("revision", number(), nullable=False),
    Column("shared", Boolean(create_constraint=False), nullable=True),
    Column("body", document(), nullable=False),
    Index(None, "resource", "project_id", "id"),
    Index(None, "resource", "parent_id"),
    Index(None, "resource", "shared"),
    **TABLE_OPTIONS,
)
"""Resources of vendors, which the model does not have, as the API shows them."""

STATUS_REPORTS: Final = Table(
    "status_reports",
    METADATA,
    Column("resource_id", word(), primary_key=True),
    Column("service", word(), primary_key=True),
    Column("host", text(), primary_key=True),
    Column("kind", word(), nullable=False),
    Column("revision", number(), nullable=False),
    Column("status", word(), nullable=False),
    Column("reason", document(), nullable=False),
    **TABLE_OPTIONS,
)
"""The last status report of a service of a host on a resource."""

ROUTER_ROLES: Final = Table(
    "router_roles",
    METADATA,
    Column("router_id", word(), ForeignKey("routers.id", ondelete="CASCADE"), primary_key=True),
    Column("host", text(), primary_key=True),
    Column("role", word(), nullable=False),
    Column("boot", word(), nullable=True),
    Column("since", number(), nullable=True),
    **TABLE_OPTIONS,
)
"""The last role that the L3 agent of a host reported of a highly available router, and since when
the host has it, in microseconds of its boot."""

HOST_MACS: Final = Table(
    "host_macs",
    METADATA,
    Column("host", text(), primary_key=True),
    Column("mac", word(), nullable=False),
    UniqueConstraint("mac"),
    **TABLE_OPTIONS,
)
"""The MAC address that routed traffic of a host carries; no two hosts have the same."""

TUNNEL_ADDRESSES: Final = Table(
    "tunnel_addresses",
    METADATA,
    Column("address", word(ADDRESS_LENGTH), primary_key=True),
    Column("host", text(), nullable=False),
    Index(None, "host"),
    **TABLE_OPTIONS,
)
"""The host whose agents advertise a tunnel address; no two hosts have the same."""

HA_NETWORKS: Final = Table(
    "ha_networks",
    METADATA,
    Column("project_id", text(), primary_key=True),
    Column("ordinal", number(), primary_key=True, autoincrement=False),
    Column("network_id", word(), nullable=False),
    UniqueConstraint("network_id"),
    **TABLE_OPTIONS,
)
"""The networks by which the highly available routers of a project elect their active hosts."""

VRIDS: Final = Table(
    "vrids",
    METADATA,
    Column("network_id", word(), ForeignKey("ha_networks.network_id"), primary_key=True),
    Column("vrid", number(), primary_key=True, autoincrement=False),
    Column("router_id", word(), nullable=False),
    UniqueConstraint("router_id"),
    **TABLE_OPTIONS,
)
"""The virtual router ids in use; no two routers of an HA network have the same."""

OUTBOX: Final = Table(
    "outbox",
    METADATA,
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("position", number(), primary_key=True, autoincrement=False),
    Column("driver", text(64), nullable=False),
    Column("lane", word(), nullable=False),
    Column("kind", word(), nullable=False),
    Column("resource_id", word(), nullable=False),
    Column("revision", number(), nullable=False),
    Column("before", document(), nullable=True),
    Column("after", document(), nullable=True),
    Column("context", document(), nullable=False),
    Column("at", number(), nullable=False),
    Column("tried", Boolean(create_constraint=False), nullable=False),
    Column("error", document(), nullable=True),
    Index(None, "driver", "lane", "seq", "position"),
    Index(None, "resource_id"),
    **TABLE_OPTIONS,
)
"""Changes not yet delivered to drivers, in the order of commits; an entry with an error waits for
the operator."""

OUTBOX_LANES: Final = Table(
    "outbox_lanes",
    METADATA,
    Column("driver", text(64), primary_key=True),
    Column("lane", word(), primary_key=True),
    Column("owner", word(), nullable=False),
    Column("until", number(), nullable=False),
    Column("attempts", number(), nullable=False),
    Column("retry_at", number(), nullable=False),
    Column("error", document(), nullable=False),
    **TABLE_OPTIONS,
)
"""The lease of a lane, in milliseconds of the database's clock, and its back-off after failed
attempts."""
