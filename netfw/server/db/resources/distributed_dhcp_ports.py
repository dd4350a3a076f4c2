"""Networks whose distributed DHCP port is missing, or no longer needed."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, and_, select

from netfw.model.resource import Kind
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE, DeviceOwner
from netfw.server.db.schema.resource_tables import STORED

PORTS: Final = STORED[Kind.PORT].table
SUBNETS: Final = STORED[Kind.SUBNET].table
AT_MOST: Final = 1000
SELECT_NETWORKS_WITHOUT_PORT: Final = (
    select(SUBNETS.c.network_id)
    .distinct()
    .outerjoin(
        PORTS,
        and_(
            PORTS.c.network_id == SUBNETS.c.network_id,
            PORTS.c.device_owner == DeviceOwner.DHCP.value,
            PORTS.c.device_id == DISTRIBUTED_DHCP_DEVICE,
        ),
    )
    .where(SUBNETS.c.enable_dhcp.is_(True), PORTS.c.id.is_(None))
    .order_by(SUBNETS.c.network_id)
    .limit(AT_MOST)
)
AGENTS_PORTS: Final = PORTS.alias()
SELECT_NETWORKS_WITH_AGENTS_PORT: Final = (
    select(PORTS.c.network_id)
    .distinct()
    .join(
        AGENTS_PORTS,
        and_(
            AGENTS_PORTS.c.network_id == PORTS.c.network_id,
            AGENTS_PORTS.c.device_owner == DeviceOwner.DHCP.value,
            AGENTS_PORTS.c.device_id != DISTRIBUTED_DHCP_DEVICE,
            AGENTS_PORTS.c.status == Status.ACTIVE.value,
        ),
    )
    .where(
        PORTS.c.device_id == DISTRIBUTED_DHCP_DEVICE,
        PORTS.c.device_owner == DeviceOwner.DHCP.value,
    )
    .order_by(PORTS.c.network_id)
    .limit(AT_MOST)
)


def networks_with_agents_port(connection: Connection) -> tuple[UUID, ...]:
    """Return the first networks that have a distributed DHCP port and one of an active agent.

    The index of ``device_id`` finds the former: without any, this costs one lookup.
    """
    rows = connection.execute(SELECT_NETWORKS_WITH_AGENTS_PORT).scalars()
    return tuple(UUID(id) for id in rows)


def networks_without_dhcp_port(connection: Connection) -> tuple[UUID, ...]:
    """Return the first networks with DHCP that have no distributed DHCP port.

    One statement at each pass of the rescheduler: it reads the subnets, and the ports with that
    ``device_id`` by their index; other ports are not read.  Its result has at most `AT_MOST` rows.
    """
    return tuple(UUID(id) for id in connection.execute(SELECT_NETWORKS_WITHOUT_PORT).scalars())
