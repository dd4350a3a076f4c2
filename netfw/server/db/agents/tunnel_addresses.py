"""Tunnel addresses: the host that advertises each."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.model.address import IpAddress
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.schema.tables import TUNNEL_ADDRESSES


class TunnelAddresses:
    """The tunnel addresses of hosts, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def host_of(self, address: IpAddress) -> str | None:
        """Return the host that has *address*, and lock the row."""
        rows = select(TUNNEL_ADDRESSES.c.host).where(TUNNEL_ADDRESSES.c.address == str(address))
        found: str | None = self._connection.execute(rows.with_for_update()).scalar()
        return found

    def of(self, host: str) -> frozenset[str]:
        """Return the addresses of *host*."""
        rows = select(TUNNEL_ADDRESSES.c.address).where(TUNNEL_ADDRESSES.c.host == host)
        return frozenset(self._connection.execute(rows).scalars())

    def assign(self, address: IpAddress, host: str) -> None:
        """Assign *address* to *host*; the transaction is retried if another is the first."""
        same = TUNNEL_ADDRESSES.c.address == str(address)
        change = update(TUNNEL_ADDRESSES).where(same).values(host=host)
        if self._connection.execute(change).rowcount:
            return
        row = {"address": str(address), "host": host}
        try:
            self._connection.execute(insert(TUNNEL_ADDRESSES).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"another transaction assigned {address} first") from exc

    def release(self, addresses: Collection[str]) -> None:
        """Release *addresses*."""
        if not addresses:
            return
        gone = TUNNEL_ADDRESSES.c.address.in_(sorted(addresses))
        self._connection.execute(delete(TUNNEL_ADDRESSES).where(gone))
