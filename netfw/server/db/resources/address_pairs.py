"""Allowed address pairs of the ports of a network.

They have no table of their own: the bodies of the network's ports are searched, by its index.
"""

from __future__ import annotations

from typing import Final, cast

from sqlalchemy import Connection, bindparam, select

from netfw.model.ids import NetworkId
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.server.db.resources.rows import value
from netfw.server.db.schema.resource_tables import PORTS

PAIRS: Final = '"allowed_address_pairs":[{'
"""Part of the bodies of ports with pairs; a ``binding:profile`` of others may have it, too."""
SELECT_WITH_PAIRS: Final = select(PORTS.c.body).where(
    PORTS.c.network_id == bindparam("network"),
    PORTS.c.body.contains(PAIRS, autoescape=True),
)


def ports_with_pairs(connection: Connection, network: NetworkId) -> tuple[Port, ...]:
    """Return the ports of *network* that have allowed address pairs, and perhaps others."""
    bodies = connection.execute(SELECT_WITH_PAIRS, {"network": str(network)}).scalars()
    return tuple(cast(Port, value(Kind.PORT, body)) for body in bodies)
