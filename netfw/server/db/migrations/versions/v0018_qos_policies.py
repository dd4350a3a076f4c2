"""QoS policies, their rules, and what uses them."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word
from netfw.server.db.subscriptions.rebuild import rebuild_subscriptions

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

POLICIES = "qos_policies"
OWNERS = {
    "network": "networks",
    "port": "ports",
    "floating_ip": "floating_ips",
    "router": "routers",
}
COLUMNS = ("networks", "ports", "floating_ips")
"""Those of the tables that have a column for filters by policy."""
ATTRIBUTES = ("qos_policy_id", "qos_network_policy_id")


def upgrade() -> None:
    """Create the tables; no policy was there before, so that no gateway has one."""
    op.create_table(
        POLICIES,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        sa.Column("shared", sa.Boolean(create_constraint=False)),
        sa.Column("is_default", sa.Boolean(create_constraint=False)),
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{POLICIES}"),
        **TABLE_OPTIONS,
    )
    for columns in (["project_id", "id"], ["name"]):
        op.create_index(f"ix_{POLICIES}_{'_'.join(columns)}", POLICIES, columns)
    _create_rules()
    _create_defaults()
    for owner, owners in OWNERS.items():
        _create_uses(owner, owners)
    _clear_gateways()


def _create_rules() -> None:
    name = "qos_rules"
    op.create_table(
        name,
        sa.Column("policy_id", word(), nullable=False),
        sa.Column("rule_id", word(), nullable=False),
        sa.Column("type", word(), nullable=False),
        sa.PrimaryKeyConstraint("policy_id", "rule_id", name=f"pk_{name}"),
        _owner(name, "policy_id", POLICIES),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{name}_rule_id", name, ["rule_id"])


def _create_defaults() -> None:
    name = "default_qos_policies"
    op.create_table(
        name,
        sa.Column("policy_id", word(), nullable=False),
        sa.Column("project_id", text(), nullable=False),
        sa.PrimaryKeyConstraint("policy_id", name=f"pk_{name}"),
        sa.UniqueConstraint("project_id", name=f"uq_{name}_project_id"),
        _owner(name, "policy_id", POLICIES),
        **TABLE_OPTIONS,
    )


def _create_uses(owner: str, owners: str) -> None:
    name, column = f"{owner}_qos_policies", f"{owner}_id"
    op.create_table(
        name,
        sa.Column(column, word(), nullable=False),
        sa.Column("policy_id", word(), nullable=False),
        sa.PrimaryKeyConstraint(column, name=f"pk_{name}"),
        _owner(name, column, owners),
        sa.ForeignKeyConstraint(["policy_id"], [f"{POLICIES}.id"], name=f"fk_{name}_policy_id"),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{name}_policy_id", name, ["policy_id"])


def _owner(name: str, column: str, owners: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{owners}.id"], name=f"fk_{name}_{column}", ondelete="CASCADE"
    )


def _clear_gateways() -> None:
    """Remove the ids of policies that gateways of routers were given without effect."""
    if _clear("routers"):
        rebuild_subscriptions(op.get_bind())


def _clear(name: str) -> int:
    """Remove the ids of policies from the documents of a table; return how many had one."""
    table = sa.table(name, sa.column("id", sa.Text()), sa.column("body", sa.Text()))
    named = (table.c.body.contains(f'_policy_id":{space}"', autoescape=True) for space in ("", " "))
    rows = sa.select(table.c.id, table.c.body).where(sa.or_(*named))
    found = op.get_bind().execute(rows).all()
    for id, text_ in found:
        body: dict[str, Any] = json.loads(text_)
        for part in (body, body.get("external_gateway_info") or {}):
            part.update({each: None for each in ATTRIBUTES if each in part})
        cleared = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        op.execute(table.update().where(table.c.id == id).values(body=cleared))
    return len(found)


def downgrade() -> None:
    """Drop the tables with their rows, and the ids of policies that documents have."""
    found = sum(map(_clear, OWNERS.values()))
    for name in COLUMNS:
        policy = sa.column("qos_policy_id", sa.Text())
        change = sa.update(sa.table(name, policy)).where(policy.is_not(None))
        op.execute(change.values(qos_policy_id=None))
    for owner in OWNERS:
        op.drop_table(f"{owner}_qos_policies")
    for name in ("default_qos_policies", "qos_rules", POLICIES):
        op.drop_table(name)
    if found:
        rebuild_subscriptions(op.get_bind())
