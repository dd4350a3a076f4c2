"""Visibility of rows to a project: its own, those shared with it, and those of such a parent.

Access to the resource of another project is decided by RBAC policies alone, by index, in the
statement that reads the row.  The cost depends on what the project can see, never on the policies
of others.  Executes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    exists,
    literal,
    or_,
    select,
    union_all,
)

from netfw.model.rbac_policy import EVERY_PROJECT, RbacAction
from netfw.model.resource import Kind
from netfw.server.db.schema.rbac_tables import RBAC_POLICIES
from netfw.server.db.schema.resource_tables import STORED, table_mapping
from netfw.server.db.schema.shareable_kinds import SHAREABLE

Condition = ColumnElement[bool]
Project = str | BindParameter[str]
Actions = tuple[RbacAction, ...]

SHARED: Final = "shared"
"""The flag of shareable resources."""
SHARED_WITH: Final = "shared_with"
"""The column that says whether a row is shared with the viewer."""
_POLICIES: Final = RBAC_POLICIES.c
_PARENTS: Final[Mapping[Kind, Kind]] = MappingProxyType(
    {
        Kind.SUBNET: Kind.NETWORK,
        Kind.PORT: Kind.NETWORK,
        Kind.SECURITY_GROUP_RULE: Kind.SECURITY_GROUP,
    }
)
"""Kinds whose rows the owner of a parent sees."""
_SHARED_ONLY: Final = (RbacAction.SHARED,)


def visible(kind: Kind, project: Project, *, by_id: bool = False) -> Condition:
    """Return the condition of rows visible to a project.

    *by_id*: other conditions choose few rows by their ids, so that each is looked up by itself.
    """
    table = table_mapping(kind).table
    own = table.c.project_id == project
    if kind in SHAREABLE and not by_id:
        return table.c.id.in_(_visible_ids(kind, project, SHAREABLE[kind].actions))
    if kind in SHAREABLE:
        return or_(own, _accessible(table.c.id, project, SHAREABLE[kind].actions))
    if kind is Kind.SUBNET and not by_id:
        return table.c.id.in_(_visible_subnets(project))
    if kind is Kind.SUBNET:
        own = or_(own, _accessible(table.c.network_id, project, _SHARED_ONLY))
    return or_(own, _parent_is_own(kind, project)) if kind in _PARENTS else own


def row_columns(kind: Kind, viewer: Project | None) -> list[ColumnElement[Any]]:
    """Return the columns of a row, with whether it is shared with *viewer*, if there is one."""
    table = table_mapping(kind).table
    columns: list[ColumnElement[Any]] = [table.c.body, table.c.extra]
    if viewer is not None and kind in SHAREABLE:
        columns.append(shared_with(kind, viewer).label(SHARED_WITH))
    return columns


def shared_with(kind: Kind, viewer: Project) -> Condition:
    """Return the condition of rows that a policy shares with the project *viewer* itself."""
    table = table_mapping(kind).table
    return exists().where(
        _POLICIES.object_id == table.c.id,
        _POLICIES.action == RbacAction.SHARED.value,
        _POLICIES.target_tenant == viewer,
    )


def _accessible(id: ColumnElement[Any], project: Project, actions: Actions) -> Condition:
    """Return whether a policy lets a project access the resource of *id*."""
    return exists().where(_POLICIES.object_id == id, *_grants(project, actions))


def _parent_is_own(kind: Kind, project: Project) -> Condition:
    """Return the condition of rows whose parent is a resource of the project."""
    parents = STORED[_PARENTS[kind]].table
    owned = select(parents.c.id).where(parents.c.project_id == project)
    return table_mapping(kind).table.c[f"{_PARENTS[kind]}_id"].in_(owned)


def _visible_subnets(project: Project) -> Select[Any]:
    """Return the ids of a project's subnets, and of all subnets of networks that it can use."""
    own, others = (table_mapping(Kind.SUBNET).table.alias() for _ in range(2))
    networks = _visible_ids(Kind.NETWORK, project, _SHARED_ONLY)
    return _either(
        select(own.c.id).where(own.c.project_id == project),
        select(others.c.id).where(others.c.network_id.in_(networks)),
    )


def _visible_ids(kind: Kind, project: Project, actions: Actions) -> Select[Any]:
    """Return the ids of a project's own resources, and of those that policies share with it."""
    table = table_mapping(kind).table.alias()  # the statement around it reads the table too
    of_kind = _POLICIES.object_type == SHAREABLE[kind].object_type
    return _either(
        select(table.c.id).where(table.c.project_id == project),
        select(_POLICIES.object_id).where(of_kind, *_grants(project, actions)),
    )


def _either(one: Select[Any], other: Select[Any]) -> Select[Any]:
    """Return the rows of both; as a table, since MariaDB evaluates a union for each outer row."""
    both = union_all(one, other).subquery()
    return select(*both.c)


def _grants(project: Project, actions: Actions) -> tuple[Condition, ...]:
    """Return the conditions of policies for a project; as literals, for prepared statements."""
    targets = (project, literal(EVERY_PROJECT))
    return (
        _POLICIES.target_tenant.in_(
            [literal(each) if isinstance(each, str) else each for each in targets]
        ),
        _POLICIES.action.in_([literal(each.value) for each in actions]),
    )
