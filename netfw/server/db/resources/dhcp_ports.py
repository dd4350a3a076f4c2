"""Networks whose distributed DHCP port is missing or incomplete."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, and_, select

from netfw.model.device_owner import DISTRIBUTED_DHCP_DEVICE, DeviceOwner
from netfw.model.resource import Kind
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


def networks_without_dhcp_port(connection: Connection) -> tuple[UUID, ...]:
    """Return the first networks with DHCP that have no distributed DHCP port."""
    return tuple(UUID(id) for id in connection.execute(SELECT_NETWORKS_WITHOUT_PORT).scalars())
