"""The tables that are not of one kind of resource: pools, quotas, the journal, who reads it."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, ForeignKey, Index, Table, UniqueConstraint

from netfw.server.db.schema.columns import (
    DIGEST_LENGTH,
    NUMBER_LENGTH,
    TABLE_OPTIONS,
    TOPIC_LENGTH,
    document,
    number,
    text,
    word,
)
from netfw.server.db.schema.resource_tables import METADATA

POOLS: Final = Table(
    "pools",
    METADATA,
    Column("pool", text(), primary_key=True),
    Column("lowest", word(NUMBER_LENGTH), nullable=False),
    Column("highest", word(NUMBER_LENGTH), nullable=False),
    **TABLE_OPTIONS,
)
"""All numbers that a pool can have, offered or not."""

OFFERS: Final = Table(
    "offers",
    METADATA,
    Column("pool", text(), primary_key=True),
    Column("first", word(NUMBER_LENGTH), primary_key=True),
    Column("last", word(NUMBER_LENGTH), nullable=False),
    **TABLE_OPTIONS,
)
"""The numbers that are for whoever wants any."""

FREE: Final = Table(
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
"""What is free: disjoint, and no two that touch are equally offered.  All else is taken."""

QUOTAS: Final = Table(
    "quotas",
    METADATA,
    Column("project_id", text(), primary_key=True),
    Column("resource", text(64), primary_key=True),
    Column("used", number(), nullable=False),
    Column("allowed", number(), nullable=True),
    **TABLE_OPTIONS,
)

HEAD: Final = Table(
    "journal_head",
    METADATA,
    Column("one", number(), primary_key=True, autoincrement=False),
    Column("epoch", word(), nullable=False),
    Column("seq", number(), nullable=False),
    Column("oldest", number(), nullable=False),
    **TABLE_OPTIONS,
)
"""One row: the number of the newest commit, and the oldest from which all that followed is told."""

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

INTERESTS: Final = Table(
    "interests",
    METADATA,
    Column("reader", text(TOPIC_LENGTH), primary_key=True),
    Column("topic", text(TOPIC_LENGTH), primary_key=True),
    Column("uses", number(), nullable=False),
    Column("since", number(), nullable=False),
    Column("ended", number(), nullable=True),
    Index(None, "topic"),
    **TABLE_OPTIONS,
)
"""Which topics concern a reader, for how many reasons, and from which commit on."""

HEARTBEATS: Final = Table(
    "heartbeats",
    METADATA,
    Column("agent_id", word(), primary_key=True),
    Column("at", number(), nullable=False),
    Column("started", number(), nullable=True),
    Column("said", word(DIGEST_LENGTH), nullable=False),
    Column("counts", document(), nullable=False),
    **TABLE_OPTIONS,
)
"""When an agent was last heard of, in milliseconds of the database's own clock; the rest of it is
what changes too often to be a change of the agent."""

DEFAULT_GROUPS: Final = Table(
    "default_groups",
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
"""Each project has one group for whoever names none."""

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
"""Networks and routers that somebody scheduled to a host's service."""

DOCUMENTS: Final = Table(
    "documents",
    METADATA,
    Column("resource", text(64), primary_key=True),
    Column("id", word(), primary_key=True),
    Column("project_id", text(), nullable=False),
    Column("name", text(), nullable=False),
    Column("parent_id", text(), nullable=True),
    Column("revision", number(), nullable=False),
    Column("body", document(), nullable=False),
    Index(None, "resource", "project_id", "id"),
    Index(None, "resource", "parent_id"),
    **TABLE_OPTIONS,
)
"""Resources of vendors, which the model does not know: whole, as the API shows them."""

REPORTS: Final = Table(
    "reports",
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
"""What a service of a host last said of a resource in its care."""

HOST_MACS: Final = Table(
    "host_macs",
    METADATA,
    Column("host", text(), primary_key=True),
    Column("mac", word(), nullable=False),
    UniqueConstraint("mac"),
    **TABLE_OPTIONS,
)
"""The MAC address that routed traffic of a host carries; no two hosts have the same."""

OUTBOX: Final = Table(
    "outbox",
    METADATA,
    Column("seq", number(), primary_key=True, autoincrement=False),
    Column("place", number(), primary_key=True, autoincrement=False),
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
    Index(None, "driver", "lane", "seq", "place"),
    Index(None, "resource_id"),
    **TABLE_OPTIONS,
)
"""What drivers are still to be told, in the order of commits; with an error: what waits for a
person."""

OUTBOX_LANES: Final = Table(
    "outbox_lanes",
    METADATA,
    Column("driver", text(64), primary_key=True),
    Column("lane", word(), primary_key=True),
    Column("owner", word(), nullable=False),
    Column("until", number(), nullable=False),
    Column("attempts", number(), nullable=False),
    Column("again", number(), nullable=False),
    Column("error", document(), nullable=False),
    **TABLE_OPTIONS,
)
"""Who works on a lane and until when it is his, in the database's milliseconds; and for how long
nobody tries, since the last attempts failed."""
