"""The number of addresses that ports use, by subnet."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.port_tables import PORT_ADDRESSES


def count_used_addresses(connection: Connection, subnets: Sequence[str]) -> dict[str, int]:
    """Return the number of addresses of ports in each of *subnets* that has any."""
    column = PORT_ADDRESSES.c.subnet_id
    counts = select(column, func.count()).group_by(column)
    found: dict[str, int] = {}
    for at in range(0, len(subnets), AT_ONCE):
        rows = connection.execute(counts.where(column.in_(subnets[at : at + AT_ONCE])))
        found |= {subnet: int(count) for subnet, count in rows}
    return found
