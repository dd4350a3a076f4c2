"""Routers and floating IPs whose statuses no longer follow from what their hosts report."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    exists,
    or_,
    select,
)

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind
from netfw.model.values.common_fields import Status
from netfw.server.db.schema.port_tables import PORTS
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import ASSIGNMENTS, STATUS_REPORTS
from netfw.server.db.subscriptions.topic_contents import IS_ROUTER_PORT

_ROUTERS: Final = STORED[Kind.ROUTER].table
_FLOATING_IPS: Final = STORED[Kind.FLOATING_IP].table
_HAS_PORTS: Final = exists().where(PORTS.c.device_id == _ROUTERS.c.id, IS_ROUTER_PORT)
_ASSIGNED: Final = exists().where(
    ASSIGNMENTS.c.resource_id == _ROUTERS.c.id, ASSIGNMENTS.c.service == Service.L3.value
)

_CONFIRMATION: Final = STATUS_REPORTS.alias()


def _confirmed(table: Table) -> ColumnElement[bool]:
    """Return the condition that a live host reported the status that the resource has."""
    return exists().where(
        _CONFIRMATION.c.resource_id == table.c.id,
        _CONFIRMATION.c.service == Service.L3.value,
        _CONFIRMATION.c.host.not_in(bindparam("hosts", expanding=True)),
        _CONFIRMATION.c.status == table.c.status,
    )


SELECT_ASSIGNED_TO_DEAD: Final = (
    select(_ROUTERS.c.id)
    .join(ASSIGNMENTS, ASSIGNMENTS.c.resource_id == _ROUTERS.c.id)
    .where(
        ASSIGNMENTS.c.service == Service.L3.value,
        ASSIGNMENTS.c.host.in_(bindparam("hosts", expanding=True)),
        _ROUTERS.c.status != Status.DOWN.value,
        ~_confirmed(_ROUTERS),
    )
)
SELECT_UNASSIGNED: Final = select(_ROUTERS.c.id).where(
    ~_ASSIGNED,
    _ROUTERS.c.distributed.is_(False),
    or_(
        and_(_HAS_PORTS, _ROUTERS.c.status != Status.DOWN.value),
        and_(~_HAS_PORTS, _ROUTERS.c.status != Status.ACTIVE.value),
    ),
)
SELECT_OF_UNASSIGNED: Final = (
    select(_FLOATING_IPS.c.id)
    .join(_ROUTERS, _ROUTERS.c.id == _FLOATING_IPS.c.router_id)
    .where(
        ~_ASSIGNED,
        _ROUTERS.c.distributed.is_(False),
        _FLOATING_IPS.c.status != Status.DOWN.value,
    )
)


def _reported(table: Table) -> Select[Any]:
    return (
        select(table.c.id, STATUS_REPORTS.c.host)
        .join(STATUS_REPORTS, STATUS_REPORTS.c.resource_id == table.c.id)
        .where(STATUS_REPORTS.c.service == Service.L3.value)
    )


SELECT_REPORTED_BY_DEAD: Final = _reported(_FLOATING_IPS).where(
    STATUS_REPORTS.c.host.in_(bindparam("hosts", expanding=True)),
    _FLOATING_IPS.c.status != Status.DOWN.value,
    ~_confirmed(_FLOATING_IPS),
)
SELECT_REPORTED_UP: Final = {
    table: _reported(table).where(
        table.c.status == Status.DOWN.value,
        STATUS_REPORTS.c.status.in_((Status.ACTIVE.value, Status.ERROR.value)),
    )
    for table in (_ROUTERS, _FLOATING_IPS)
}


def outdated_routers(connection: Connection, dead: Set[str], silent: Set[str]) -> Sequence[UUID]:
    """Return the routers of *dead* hosts that are not DOWN and whose status no other host reported,
    those that are DOWN although a host that is not *silent* reported otherwise, and those without a
    host."""
    found = {UUID(id) for id in connection.execute(SELECT_UNASSIGNED).scalars()}
    if dead:
        rows = connection.execute(SELECT_ASSIGNED_TO_DEAD, {"hosts": sorted(dead)})
        found |= {UUID(id) for id in rows.scalars()}
    return sorted(found | _reported_up(connection, _ROUTERS, silent))


def outdated_floating_ips(
    connection: Connection, dead: Set[str], silent: Set[str]
) -> Sequence[UUID]:
    """Return the floating IPs of *dead* hosts, or without a host, that are not DOWN and whose
    status no other host reported, and those that are DOWN although a host that is not *silent*
    reported otherwise."""
    found = {UUID(id) for id in connection.execute(SELECT_OF_UNASSIGNED).scalars()}
    if dead:
        rows = connection.execute(SELECT_REPORTED_BY_DEAD, {"hosts": sorted(dead)})
        found |= {UUID(row.id) for row in rows}
    return sorted(found | _reported_up(connection, _FLOATING_IPS, silent))


def _reported_up(connection: Connection, table: Table, silent: Set[str]) -> set[UUID]:
    rows = connection.execute(SELECT_REPORTED_UP[table])
    return {UUID(row.id) for row in rows if row.host not in silent}
