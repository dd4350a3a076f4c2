"""RBAC policies; the flags of shared and external resources become policies for all projects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

NAME = "rbac_policies"
QUOTA = "rbac_policy"
UNIQUE = ("object_id", "action", "target_tenant")
INDEXES = (
    ["project_id", "id"],
    ["name"],
    ["target_tenant", "object_type", "action", "object_id"],
)
FLAGS = (
    ("networks", "shared", "network", "access_as_shared"),
    ("networks", "router_external", "network", "access_as_external"),
    ("security_groups", "shared", "security_group", "access_as_shared"),
    ("address_groups", "shared", "address_group", "access_as_shared"),
)
"""Table and column of a flag, and type and action of the policy that replaces it."""
AT_ONCE = 1000
"""Rows in one statement."""


def upgrade() -> None:
    """Create the table, fill it from the flags of the stored resources, and count it."""
    table = op.create_table(
        NAME,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        sa.Column("object_type", word()),
        sa.Column("object_id", word()),
        sa.Column("action", word()),
        sa.Column("target_tenant", text()),
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{NAME}"),
        sa.UniqueConstraint(*UNIQUE, name=f"uq_{NAME}_{'_'.join(UNIQUE)}"),
        **TABLE_OPTIONS,
    )
    for columns in INDEXES:
        op.create_index(f"ix_{NAME}_{'_'.join(columns)}", NAME, columns)
    rows = list(_policies())
    for at in range(0, len(rows), AT_ONCE):
        op.bulk_insert(table, rows[at : at + AT_ONCE])
    _count(Counter(row["project_id"] for row in rows if row["project_id"]))


def downgrade() -> None:
    """Drop the table and what was counted.

    What was shared with single projects is theirs no longer.  A network that is external for some
    projects stays external, for all.
    """
    quotas = sa.table("quotas", sa.column("resource"))
    op.get_bind().execute(sa.delete(quotas).where(quotas.c.resource == QUOTA))
    op.drop_table(NAME)


def _policies() -> Iterator[dict[str, Any]]:
    """Yield the policies that the flags of the stored resources stand for."""
    for table_name, flag, object_type, action in FLAGS:
        table = sa.table(
            table_name, sa.column("id"), sa.column("project_id"), sa.column(flag, sa.Boolean())
        )
        flagged = sa.select(table.c.id, table.c.project_id).where(table.c[flag].is_(sa.true()))
        for object_id, project in op.get_bind().execute(flagged).all():
            yield _row(project or "", object_type, object_id, action)


def _row(project: str, object_type: str, object_id: str, action: str) -> dict[str, Any]:
    body = {
        "id": str(uuid4()),
        "project_id": project,
        "tenant_id": project,
        "object_type": object_type,
        "object_id": object_id,
        "action": action,
        "target_tenant": "*",
        "revision_number": 1,
    }
    columns = {name: value for name, value in body.items() if name != "tenant_id"}
    return {**columns, "body": json.dumps(body), "extra": "{}"}


def _count(used: Counter[str]) -> None:
    """Count the policies for the quotas of their projects."""
    quotas = sa.table("quotas", sa.column("project_id"), sa.column("resource"), sa.column("used"))
    rows = [
        {"project_id": project, "resource": QUOTA, "used": count}
        for project, count in sorted(used.items())
    ]
    for at in range(0, len(rows), AT_ONCE):
        op.bulk_insert(quotas, rows[at : at + AT_ONCE])
