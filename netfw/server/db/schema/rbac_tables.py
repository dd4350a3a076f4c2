"""Table of RBAC policies.

Both questions are answered by an index alone: which resources a project may access, and whether it
may access a certain one.
"""

from __future__ import annotations

from sqlalchemy import Index, UniqueConstraint

from netfw.model.resource import Kind
from netfw.server.db.schema.columns import word
from netfw.server.db.schema.table_mapping import (
    TableMapping,
    column,
    id_column,
    resource_table,
    text_column,
)

_RBAC_POLICY = (
    column("object_type", word()),
    id_column("object_id", index=False),
    column("action", word()),
    text_column("target_tenant"),
)
RBAC_POLICIES = resource_table(
    "rbac_policies",
    _RBAC_POLICY,
    UniqueConstraint("object_id", "action", "target_tenant"),
    Index(None, "target_tenant", "object_type", "action", "object_id"),
)
RBAC_TABLES = (TableMapping(kind=Kind.RBAC_POLICY, table=RBAC_POLICIES, fields=_RBAC_POLICY),)
