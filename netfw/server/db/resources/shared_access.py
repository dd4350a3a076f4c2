"""SharedAccess: uses of resources that other projects share, in one transaction.

A transaction that reads a resource of another project depends on the policy that makes it visible.
It locks the policy, shared with others, when it ends: the policy cannot be withdrawn meanwhile, and
if that happened already the transaction runs again and does not see the resource.  Policies are
withdrawn under an exclusive lock, before their uses are looked for, so that one of two such
transactions sees the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, bindparam, select

from netfw.model.rbac_policy import EVERY_PROJECT, RbacAction, RbacPolicy
from netfw.model.resource import Kind, Ref
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.resources.query_builder import conditions
from netfw.server.db.schema.rbac_tables import RBAC_POLICIES
from netfw.server.db.schema.resource_tables import table_mapping
from netfw.server.db.schema.shareable_kinds import SHAREABLE, Use

Owners = Iterable[tuple[str, str]]
"""Ids of rows with their projects."""

_POLICIES: Final = RBAC_POLICIES.c
_SELECT_GRANTS: Final = select(_POLICIES.object_id, _POLICIES.action).where(
    _POLICIES.object_id.in_(bindparam("objects", expanding=True)),
    _POLICIES.target_tenant.in_(bindparam("targets", expanding=True)),
)
SELECT_GRANTS: Final = Prepared(_SELECT_GRANTS)
SELECT_GRANTS_FOR_SHARE: Final = Prepared(_SELECT_GRANTS.with_for_update(read=True))


class _Access(NamedTuple):
    """An access that a transaction depends on; without an action: by any."""

    object_id: str
    action: RbacAction | None


class SharedAccess:
    """The accesses to resources of other projects that one transaction depends on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._needed: dict[str, set[_Access]] = {}

    def note(self, kind: Kind, project: str | None, owners: Owners) -> None:
        """Note rows, with their owners, that *project* can see; ``None`` needs no policy."""
        if project is None or kind not in SHAREABLE:
            return
        for id, owner in owners:
            if owner != project:
                self._needed.setdefault(project, set()).add(_Access(id, None))

    def require(self, id: UUID, project: str, action: RbacAction) -> bool:
        """Return whether *project* has *action* on a resource of another; depend on it if so."""
        granted = action in self.find_actions(id, project, EVERY_PROJECT)
        if granted:
            self._needed.setdefault(project, set()).add(_Access(str(id), action))
        return granted

    def find_actions(self, id: UUID, *targets: str) -> frozenset[RbacAction]:
        """Return the actions on a resource that policies for *targets* allow."""
        values = {"objects": [str(id)], "targets": list(targets)}
        rows = SELECT_GRANTS.all(self._connection, values)
        return frozenset(RbacAction(row.action) for row in rows)

    def lock(self) -> None:
        """Lock the policies that this transaction depends on, until its end.

        :raises RetryTransaction: one was withdrawn meanwhile.
        """
        for project, needed in sorted(self._needed.items()):
            objects = sorted({each.object_id for each in needed})
            values = {"objects": objects, "targets": [project, EVERY_PROJECT]}
            rows = SELECT_GRANTS_FOR_SHARE.all(self._connection, values)
            granted = {_Access(row.object_id, RbacAction(row.action)) for row in rows}
            granted |= {_Access(row.object_id, None) for row in rows}
            if missing := {each.object_id for each in needed - granted}:
                raise RetryTransaction(f"{min(missing)} is not shared any more")

    def find_use(
        self, use: Use, policy: RbacPolicy, owner: str, target: str | None = None
    ) -> Ref | None:
        """Return a use of a resource that needs *policy*, or ``None``.

        *owner* owns the resource, and needs no policy; neither does *target*.
        """
        table = table_mapping(use.kind).table
        rows = select(table.c.id).where(
            *conditions(use.kind, {use.attribute: (str(policy.object_id),)}),
            table.c.project_id.not_in(["", owner, *([] if target is None else [target])]),
        )
        if policy.target_project == EVERY_PROJECT:
            others = select(_POLICIES.target_tenant).where(
                _POLICIES.object_id == str(policy.object_id),
                _POLICIES.action == policy.action.value,
            )
            rows = rows.where(table.c.project_id.not_in(others))
        else:
            rows = rows.where(table.c.project_id == policy.target_project)
        found = self._connection.execute(rows.limit(1)).first()
        return None if found is None else Ref(use.kind, UUID(found.id))
