"""Visibility of rows to a project: its own, those shared with it, and those of such a parent.

Access to the resource of another project is decided by RBAC policies alone, by index, in the
statement that reads the row.  The cost depends on what the project can see, never on the policies
of others.  Executes nothing; the parts of statements are built once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    String,
    bindparam,
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
Actions = tuple[RbacAction, ...]

PROJECT: Final[BindParameter[str]] = bindparam("seen_by", type_=String())
"""The value of a statement with :func:`visible`."""
VIEWER: Final[BindParameter[str]] = bindparam("viewed_by", type_=String())
"""The value of a statement with :func:`shared_with`."""
SHARED: Final = "shared"
"""The flag of shareable resources."""
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


@cache
def visible(kind: Kind, *, by_id: bool = False) -> Condition:
    """Return the condition of rows visible to the project :data:`PROJECT`.

    *by_id*: other conditions choose few rows by their ids, so that each is looked up by itself.
    """
    table = table_mapping(kind).table
    own = table.c.project_id == PROJECT
    if kind in SHAREABLE and not by_id:
        return table.c.id.in_(_visible_ids(kind, SHAREABLE[kind].actions))
    if kind in SHAREABLE:
        return or_(own, _accessible(table.c.id, SHAREABLE[kind].actions))
    if kind is Kind.SUBNET and not by_id:
        return table.c.id.in_(_visible_subnets())
    if kind is Kind.SUBNET:
        own = or_(own, _accessible(table.c.network_id, _SHARED_ONLY))
    return or_(own, _parent_is_own(kind)) if kind in _PARENTS else own


@cache
def row_columns(kind: Kind, *, viewed: bool) -> tuple[ColumnElement[Any], ...]:
    """Return the columns that `read_row` reads, in order; *viewed*: the last is whether it is
    shared with the viewer."""
    table = table_mapping(kind).table
    if not viewed or kind not in SHAREABLE:
        return (table.c.body, table.c.extra)
    return (table.c.body, table.c.extra, shared_with(kind).label("shared_with"))


@cache
def shared_with(kind: Kind) -> Condition:
    """Return the condition of rows that a policy shares with the project :data:`VIEWER` itself."""
    table = table_mapping(kind).table
    return exists().where(
        _POLICIES.object_id == table.c.id,
        _POLICIES.action == RbacAction.SHARED.value,
        _POLICIES.target_tenant == VIEWER,
    )


def project_values(project: str | None, viewer: str | None) -> dict[str, str | None]:
    """Return the values of a statement with these parts."""
    return {PROJECT.key: project, VIEWER.key: viewer}


def _accessible(id: ColumnElement[Any], actions: Actions) -> Condition:
    """Return whether a policy lets a project access the resource of *id*."""
    return exists().where(_POLICIES.object_id == id, *_grants(actions))


def _parent_is_own(kind: Kind) -> Condition:
    """Return the condition of rows whose parent is a resource of the project."""
    parents = STORED[_PARENTS[kind]].table
    owned = select(parents.c.id).where(parents.c.project_id == PROJECT)
    return table_mapping(kind).table.c[f"{_PARENTS[kind]}_id"].in_(owned)


def _visible_subnets() -> Select[Any]:
    """Return the ids of a project's subnets, and of all subnets of networks that it can use."""
    own, others = (table_mapping(Kind.SUBNET).table.alias() for _ in range(2))
    networks = _visible_ids(Kind.NETWORK, _SHARED_ONLY)
    return _either(
        select(own.c.id).where(own.c.project_id == PROJECT),
        select(others.c.id).where(others.c.network_id.in_(networks)),
    )


def _visible_ids(kind: Kind, actions: Actions) -> Select[Any]:
    """Return the ids of a project's own resources, and of those that policies share with it."""
    table = table_mapping(kind).table.alias()  # the statement around it reads the table too
    of_kind = _POLICIES.object_type == SHAREABLE[kind].object_type
    return _either(
        select(table.c.id).where(table.c.project_id == PROJECT),
        select(_POLICIES.object_id).where(of_kind, *_grants(actions)),
    )


def _either(one: Select[Any], other: Select[Any]) -> Select[Any]:
    """Return the rows of both; as a table, since MariaDB evaluates a union for each outer row."""
    both = union_all(one, other).subquery()
    return select(*both.c)


def _grants(actions: Actions) -> tuple[Condition, ...]:
    """Return the conditions of policies for a project; as literals, for prepared statements."""
    return (
        _POLICIES.target_tenant.in_([PROJECT, literal(EVERY_PROJECT)]),
        _POLICIES.action.in_([literal(each.value) for each in actions]),
    )
