"""Rename tables and columns to the terms of the code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

Definition = Callable[[str], list[Any]]


def _subscriptions(table: str) -> list[Any]:
    return [
        sa.Column("reader", text(300), nullable=False),
        sa.Column("topic", text(300), nullable=False),
        sa.Column("uses", number(), nullable=False),
        sa.Column("since", number(), nullable=False),
        sa.Column("ended", number(), nullable=True),
        sa.PrimaryKeyConstraint("reader", "topic", name=f"pk_{table}"),
        sa.Index(f"ix_{table}_topic", "topic"),
    ]


def _default_security_groups(table: str) -> list[Any]:
    return [
        sa.Column("project_id", text(), nullable=False),
        sa.Column("security_group_id", word(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            ["security_group_id"],
            ["security_groups.id"],
            name=f"fk_{table}_security_group_id",
            ondelete="CASCADE",
        ),
    ]


def _vendor_resources(table: str) -> list[Any]:
    return [
        sa.Column("resource", text(64), nullable=False),
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text(), nullable=False),
        sa.Column("name", text(), nullable=False),
        sa.Column("parent_id", text(), nullable=True),
        sa.Column("revision", number(), nullable=False),
        sa.Column("body", document(), nullable=False),
        sa.PrimaryKeyConstraint("resource", "id", name=f"pk_{table}"),
        sa.Index(f"ix_{table}_resource_project_id_id", "resource", "project_id", "id"),
        sa.Index(f"ix_{table}_resource_parent_id", "resource", "parent_id"),
    ]


def _status_reports(table: str) -> list[Any]:
    return [
        sa.Column("resource_id", word(), nullable=False),
        sa.Column("service", word(), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.Column("kind", word(), nullable=False),
        sa.Column("revision", number(), nullable=False),
        sa.Column("status", word(), nullable=False),
        sa.Column("reason", document(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "service", "host", name=f"pk_{table}"),
    ]


TABLES: tuple[tuple[str, str, Definition], ...] = (
    ("interests", "subscriptions", _subscriptions),
    ("default_groups", "default_security_groups", _default_security_groups),
    ("documents", "vendor_resources", _vendor_resources),
    ("reports", "status_reports", _status_reports),
)
COLUMNS = (
    ("heartbeats", "said", "state_digest"),
    ("outbox", "place", "position"),
    ("outbox_lanes", "again", "retry_at"),
)
OUTBOX_ORDER = ("driver", "lane", "seq")


def upgrade() -> None:
    """Copy rows into tables of the new names, and rename columns."""
    for old, new, definition in TABLES:
        _copy_table(old, new, definition)
    _rename_columns(COLUMNS, "place", "position")


def downgrade() -> None:
    """Restore the former names."""
    _rename_columns([(table, new, old) for table, old, new in COLUMNS], "position", "place")
    for old, new, definition in TABLES:
        _copy_table(new, old, definition)


def _copy_table(source: str, target: str, definition: Definition) -> None:
    """Create *target*, whose constraints have its name, and move the rows of *source* into it."""
    op.create_table(target, *definition(target), **TABLE_OPTIONS)
    quote = op.get_bind().dialect.identifier_preparer.quote
    names = [part.name for part in definition(target) if isinstance(part, sa.Column)]
    columns = ", ".join(quote(name) for name in names)
    op.execute(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source}")
    op.drop_table(source)


def _rename_columns(
    columns: tuple[tuple[str, str, str], ...] | list[tuple[str, str, str]], old: str, new: str
) -> None:
    op.drop_index(f"ix_outbox_{'_'.join((*OUTBOX_ORDER, old))}", "outbox")
    quote = op.get_bind().dialect.identifier_preparer.quote
    for table, before, after in columns:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {quote(before)} TO {quote(after)}")
    names = [*OUTBOX_ORDER, new]
    op.create_index(f"ix_outbox_{'_'.join(names)}", "outbox", names)
