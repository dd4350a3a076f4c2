"""Allowed address pairs of the ports of a network, by the addresses that they contain."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, select

from netfw.model.values.address import IpAddress, IpNetwork, as_network
from netfw.model.values.ids import NetworkId, PortId
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.port_tables import PORT_ADDRESS_PAIRS

SELECT_CONTAINING: Final = select(PORT_ADDRESS_PAIRS.c.port_id, PORT_ADDRESS_PAIRS.c.prefix).where(
    PORT_ADDRESS_PAIRS.c.network_id == bindparam("network"),
    PORT_ADDRESS_PAIRS.c.prefix.in_(bindparam("prefixes", expanding=True)),
)


def pairs_containing(
    connection: Connection, network: NetworkId, addresses: Iterable[IpAddress]
) -> list[tuple[PortId, IpNetwork]]:
    """Return the pairs on *network* that contain one of *addresses*, with their ports.

    A prefix that contains an address is one of 33 or 129: the index finds them, however many
    ports the network has.
    """
    prefixes = sorted({str(each) for address in addresses for each in _prefixes(address)})
    found: list[tuple[PortId, IpNetwork]] = []
    for at in range(0, len(prefixes), AT_ONCE):
        values = {"network": str(network), "prefixes": prefixes[at : at + AT_ONCE]}
        rows = connection.execute(SELECT_CONTAINING, values)
        found += [(PortId(UUID(row.port_id)), as_network(row.prefix)) for row in rows]
    return found


def _prefixes(address: IpAddress) -> Iterable[IpNetwork]:
    lengths = range(address.max_prefixlen + 1)
    return (ip_network((address, length), strict=False) for length in lengths)
